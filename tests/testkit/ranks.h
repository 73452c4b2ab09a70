#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tessera/comm/world.h"

/// EXPECT_TRUE that counts as a check of this rank: a rank that ran none fails its test.
#define RANK_EXPECT(...)                                \
  EXPECT_TRUE(::tessera::testkit::checked(__VA_ARGS__)) \
      << "on rank " << ::tessera::testkit::rank_of_test() << ": "

namespace tessera::testkit {

/// Runs the body as every rank of a world of real processes, each this test program started anew
/// for the current test alone. The test fails where a rank fails, ends early, takes too long or
/// checks nothing.
void run_ranks(int64_t world_size, const std::function<void(World&)>& body);

/// The sum of the members' numbers, and the same added up by the members themselves: equal where a
/// group connects whom it should.
int64_t sum_of_ranks(const Group& group);
int64_t reduced_rank(const World& world, const Group& group);

/// The condition, counted.
bool checked(bool condition);
int64_t rank_of_test();

}  // namespace tessera::testkit

#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tessera/comm/world.h"

/// EXPECT_TRUE that counts as a check of this rank: a rank without checks fails its test.
#define RANK_EXPECT(...)                                \
  EXPECT_TRUE(::tessera::testkit::checked(__VA_ARGS__)) \
      << "on rank " << ::tessera::testkit::rank_of_test() << ": "

namespace tessera::testkit {

/// Runs the body on every rank of a world of real processes. Each process is this test program,
/// started again for the current test only. The test fails if a rank fails, ends early, takes too
/// long or checks nothing.
void run_ranks(int64_t world_size, const std::function<void(World&)>& body);

/// The sum of the members' rank numbers, and the same as an all-reduce of the group. They are equal
/// if the group connects the right ranks.
int64_t sum_of_ranks(const Group& group);
int64_t reduced_rank(const World& world, const Group& group);

/// Returns the condition and counts the check.
bool checked(bool condition);
int64_t rank_of_test();

}  // namespace tessera::testkit

#include "tessera/tensor/sharding_spec.h"

#include <gtest/gtest.h>

#include <functional>

#include "tessera/base/check.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Numels = std::vector<int64_t>;

void expect_refusal(const std::function<void()>& body, const std::string& part) {
  const std::string message = testkit::message_of<ConfigError>(body);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(ShardingSpec, KnowsTheSpansOfEachRank) {
  const ShardingSpec spec({2, 3}, {{{0, 2}, {4, 6}}, {{2, 4}}, {}});
  EXPECT_EQ(spec.unsharded_numel(), 6);
  EXPECT_EQ(spec.unsharded_flattened_shape(), Numels{6});
  EXPECT_EQ(spec.sharded_numels(), (Numels{4, 2, 0}));
  EXPECT_EQ(spec.num_ranks(), 3);
  EXPECT_EQ(spec.largest_shard(), 4);
  EXPECT_EQ(concat(spec), "(2,3) as [0,2)+[4,6) | [2,4) | nothing");
  EXPECT_EQ(spec, ShardingSpec({2, 3}, {{{0, 2}, {4, 6}}, {{2, 4}}, {}}));
  EXPECT_NE(spec, ShardingSpec({3, 2}, {{{0, 2}, {4, 6}}, {{2, 4}}, {}}));
}

TEST(ShardingSpec, EvenPiecesMayBeEmpty) {
  EXPECT_EQ(ShardingSpec::even({5}, 4).sharded_numels(), (Numels{2, 2, 1, 0}));
  EXPECT_EQ(ShardingSpec::even({3}, 8).sharded_numels(), (Numels{1, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(ShardingSpec::even({}, 2).sharded_numels(), (Numels{1, 0})) << "a scalar";
  EXPECT_EQ(ShardingSpec::even({4, 0}, 2).sharded_numels(), (Numels{0, 0}));
}

TEST(ShardingSpec, RefusesWhatIsNoPartition) {
  const auto make = [](std::vector<FlatSpans> offsets) {
    return [offsets] { ShardingSpec({2, 3}, offsets); };
  };
  expect_refusal(make({{{0, 3}}, {{2, 6}}}), "spans [0,3) of rank 0 and [2,6) of rank 1 overlap");
  expect_refusal(make({{{0, 3}}, {{4, 6}}}), "no rank holds elements [3,4) of 6");
  expect_refusal(make({{{0, 3}}, {{3, 5}}}), "no rank holds elements [5,6) of 6");
  expect_refusal(make({{{0, 3}}, {{3, 7}}}), "span [3,7) of rank 1 is not in a tensor");
  expect_refusal(make({{{3, 0}}, {{0, 6}}}), "span [3,0) of rank 0 is not in a tensor");
  expect_refusal(make({{{-1, 6}}}), "span [-1,6) of rank 0 is not in a tensor");
  expect_refusal(make({{{0, 6}}, {{0, 6}}}), "overlap");
  expect_refusal(make({}), "no ranks");
  expect_refusal([] { ShardingSpec::even({-2}, 2); }, "shape (-2) has a size of -2");
  expect_refusal([] { ShardingSpec::even({2}, 0); }, "over 0 ranks");
  expect_refusal([] { ShardingSpec::even({int64_t{1} << 40, int64_t{1} << 40}, 2); },
                 "the number of elements");
}

}  // namespace
}  // namespace tessera

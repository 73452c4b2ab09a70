#include "tessera/topology/hierarchy.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

RankGroup first_ranks(int64_t count) {
  RankGroup ranks;
  for (int64_t i = 0; i < count; ++i) ranks.push_back({i});
  return ranks;
}

TEST(Hierarchy, LevelsJoinTheRunsOfTheLevelBefore) {
  const auto levels = hierarchical_groups(first_ranks(16), std::vector<int64_t>{2, 2, 4});
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0][1], to_ranks({2, 3}));
  EXPECT_EQ(levels[1][1], to_ranks({1, 3}));
  EXPECT_EQ(levels[1][2], to_ranks({4, 6}));
  EXPECT_EQ(levels[2][3], to_ranks({3, 7, 11, 15}));
}

TEST(Hierarchy, KeepsTheOrderOfAnUnsortedList) {
  const auto levels = hierarchical_groups(to_ranks({3, 1, 0, 2}), std::vector<int64_t>{2, 2});
  EXPECT_EQ(levels[0][0], to_ranks({3, 1}));
  EXPECT_EQ(levels[1][0], to_ranks({3, 0}));
}

TEST(Hierarchy, RefusesSizesThatDoNotCoverTheRanks) {
  EXPECT_THROW(hierarchical_groups(first_ranks(6), std::vector<int64_t>{2, 2}), ConfigError);
  EXPECT_THROW(hierarchical_groups(first_ranks(4), std::vector<int64_t>{-2, -2}), ConfigError);
  EXPECT_THROW(hierarchical_groups(to_ranks({1, 1}), std::vector<int64_t>{2}), ConfigError);
  EXPECT_TRUE(hierarchical_groups(first_ranks(4), {}).empty());
}

TEST(HybridGroups, StopBelowTheLargestPowerOfTwo) {
  EXPECT_THROW(hybrid_dp_cp_groups({}), ConfigError);
  EXPECT_TRUE(hybrid_dp_cp_groups(first_ranks(3)).empty());
  EXPECT_EQ(hybrid_dp_cp_groups(first_ranks(4)).size(), 1U);
  EXPECT_EQ(hybrid_dp_cp_groups(first_ranks(16)).size(), 3U);
}

TEST(HybridGroups, TheLastChunkMayBeShort) {
  const auto levels = hybrid_dp_cp_groups(first_ranks(10));
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[1].size, 4);
  EXPECT_EQ(levels[1].groups.back(), to_ranks({8, 9}));
}

}  // namespace
}  // namespace tessera

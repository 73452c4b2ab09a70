#include "tessera/plan/group_spec.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

RankGroup first_ranks(int64_t count) {
  RankGroup ranks;
  for (int64_t i = 0; i < count; ++i) ranks.push_back(GlobalRank{i});
  return ranks;
}

std::vector<GroupSpec> hierarchy(const RankGroup& ranks, const std::vector<int64_t>& sizes,
                                 const HierarchyOptions& options = {.description = "CP"}) {
  return hierarchical_specs(line_of(ranks, 16), {"ranks"}, sizes, options);
}

TEST(HierarchicalSpecs, LevelsJoinTheRunsOfTheLevelBefore) {
  const auto levels = hierarchy(first_ranks(16), {2, 2, 4});
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].name, "HIERARCHICAL_CP_L0");
  EXPECT_EQ(levels[0].groups.group(1), to_ranks({2, 3}));
  EXPECT_EQ(levels[1].groups.group(1), to_ranks({1, 3}));
  EXPECT_EQ(levels[1].groups.group(2), to_ranks({4, 6}));
  EXPECT_EQ(levels[2].groups.group(3), to_ranks({3, 7, 11, 15}));
}

TEST(HierarchicalSpecs, KeepTheOrderOfAnUnsortedList) {
  const auto levels = hierarchy(to_ranks({3, 1, 0, 2}), {2, 2});
  EXPECT_EQ(levels[0].groups.group(0), to_ranks({3, 1}));
  EXPECT_EQ(levels[1].groups.group_of(GlobalRank{0}), to_ranks({3, 0}));
}

TEST(HierarchicalSpecs, PutTheGlooTwinRightAfterItsGroup) {
  const NcclOptions intra{.max_ctas = 1};
  const NcclOptions inter{.max_ctas = 2};
  const auto specs = hierarchy(first_ranks(4), {2, 2},
                               {.description = "CP", .nccl = {{intra, inter}}, .gloo_twins = true});
  ASSERT_EQ(specs.size(), 4U);
  EXPECT_EQ(specs[1].name, "HIERARCHICAL_CP_GLOO_L0");
  EXPECT_EQ(specs[1].backend, GroupBackend::kGloo);
  EXPECT_EQ(specs[1].made, Made::kAfterGroup);
  EXPECT_EQ(specs[1].options, intra) << "the peer hands NCCL's options to these twins, too";
  EXPECT_EQ(specs[2].options, inter);
}

TEST(HierarchicalSpecs, RefuseWhatDoesNotFit) {
  EXPECT_THROW(hierarchy(first_ranks(6), {2, 2}), ConfigError);
  EXPECT_THROW(hierarchy(first_ranks(4), {-2, -2}), ConfigError);
  EXPECT_THROW(hierarchy(to_ranks({1, 1}), {2}), ConfigError);
  EXPECT_THROW(hierarchy(to_ranks({0, 16}), {2}), ConfigError);
  EXPECT_THROW(
      hierarchy(first_ranks(4), {2, 2}, {.description = "CP", .nccl = std::vector<NcclOptions>(1)}),
      ConfigError);
  EXPECT_TRUE(hierarchy(first_ranks(4), {}).empty());
}

std::vector<GroupSpec> hybrid(const RankGroup& ranks) {
  return hybrid_specs(line_of(ranks, 16), {"ranks"});
}

TEST(HybridSpecs, StopBelowTheLargestPowerOfTwo) {
  EXPECT_TRUE(hybrid(first_ranks(3)).empty());
  EXPECT_EQ(hybrid(first_ranks(4)).size(), 1U);
  EXPECT_EQ(hybrid(first_ranks(16)).size(), 3U);
  EXPECT_THROW(hybrid({}), ConfigError);
  EXPECT_THROW(hybrid(to_ranks({0, 1, 2, 16})), ConfigError);
}

TEST(HybridSpecs, AreNamedByTheirSizeAndTheLastChunkMayBeShort) {
  const auto specs = hybrid(first_ranks(10));
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[1].name, "HYBRID_DP_CP_GROUP_4");
  EXPECT_EQ(specs[1].groups.groups().back(), to_ranks({8, 9}));
  EXPECT_EQ(specs[1].timeout, std::nullopt);
}

TEST(GlooTwin, HasTheSameRanksOnALaneOfItsOwn) {
  const GroupSpec spec{.name = "DP",
                       .label = "dp",
                       .groups = {line_of(first_ranks(4), 4), {"ranks"}},
                       .options = {.max_ctas = 4},
                       .lane = Lane::kReduce};
  const GroupSpec twin = gloo_twin(spec, "DP_GLOO");
  EXPECT_EQ(twin.groups, spec.groups);
  EXPECT_EQ(twin.lane, Lane::kControl);
  EXPECT_EQ(twin.options, NcclOptions{});
}

}  // namespace
}  // namespace tessera

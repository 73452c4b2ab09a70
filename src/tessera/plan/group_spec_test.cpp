#include "tessera/plan/group_spec.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

TEST(HierarchicalSpecs, PutTheGlooTwinRightAfterItsGroup) {
  const auto specs = hierarchical_group_specs(
      to_ranks({0, 1, 2, 3}), std::vector<int64_t>{2, 2},
      {.world = 4, .description = "CP", .gloo_twins = true, .options = {{"intra", "inter"}}});
  ASSERT_EQ(specs.size(), 8U);
  EXPECT_EQ(specs[0],
            (GroupSpec{"HIERARCHICAL_CP_L0", to_ranks({0, 1}), GroupBackend::kDefault, "intra"}));
  EXPECT_EQ(specs[1],
            (GroupSpec{"HIERARCHICAL_CP_GLOO_L0", to_ranks({0, 1}), GroupBackend::kGloo, "intra"}));
  EXPECT_EQ(specs[6],
            (GroupSpec{"HIERARCHICAL_CP_L1", to_ranks({1, 3}), GroupBackend::kDefault, "inter"}));
}

TEST(HierarchicalSpecs, RefuseOptionsThatDoNotFitTheLevels) {
  EXPECT_THROW(
      hierarchical_group_specs(to_ranks({0, 1, 2, 3}), std::vector<int64_t>{2, 2},
                               {.world = 4, .description = "CP", .options = {{"only one"}}}),
      ConfigError);
}

TEST(HierarchicalSpecs, RefuseRanksOutsideTheWorld) {
  const std::vector<int64_t> sizes{2};
  EXPECT_THROW(hierarchical_group_specs(to_ranks({0, 4}), sizes, {.world = 4, .description = "CP"}),
               ConfigError);
  EXPECT_THROW(hybrid_group_specs(to_ranks({0, 1, 2, 4}), 4), ConfigError);
}

TEST(HybridSpecs, AreNamedByTheirSize) {
  const auto specs = hybrid_group_specs(to_ranks({0, 1, 2, 3}), 4);
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[1], (GroupSpec{"HYBRID_DP_CP_GROUP_2", to_ranks({2, 3})}));
}

}  // namespace
}  // namespace tessera

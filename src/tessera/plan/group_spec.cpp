#include "tessera/plan/group_spec.h"

#include "tessera/base/check.h"
#include "tessera/topology/hierarchy.h"

namespace tessera {
namespace {

void check_in_world(std::span<const GlobalRank> ranks, int64_t world) {
  for (const GlobalRank rank : ranks) {
    TSR_CHECK(0 <= rank.value && rank.value < world, "rank ", rank, " is outside the world of ",
              world, " ranks; choose 0 to ", world - 1);
  }
}

}  // namespace

std::vector<GroupSpec> hierarchical_group_specs(std::span<const GlobalRank> ranks,
                                                std::span<const int64_t> sizes,
                                                const HierarchyOptions& options) {
  check_in_world(ranks, options.world);
  TSR_CHECK(!options.options || options.options->size() == sizes.size(), options.options->size(),
            " options were given for ", sizes.size(), " levels of ", options.description,
            "; give one per level, or none at all");
  const auto levels = hierarchical_groups(ranks, sizes);
  std::vector<GroupSpec> specs;
  for (size_t level = 0; level < levels.size(); ++level) {
    const auto section = options.options ? (*options.options)[level] : std::nullopt;
    const std::string prefix = concat("HIERARCHICAL_", options.description);
    for (const RankGroup& group : levels[level]) {
      specs.push_back({concat(prefix, "_L", level), group, GroupBackend::kDefault, section});
      if (!options.gloo_twins) continue;
      specs.push_back({concat(prefix, "_GLOO_L", level), group, GroupBackend::kGloo, section});
    }
  }
  return specs;
}

std::vector<GroupSpec> hybrid_group_specs(std::span<const GlobalRank> ranks, int64_t world) {
  check_in_world(ranks, world);
  std::vector<GroupSpec> specs;
  for (const auto& [size, groups] : hybrid_dp_cp_groups(ranks)) {
    for (const RankGroup& group : groups) {
      specs.push_back({concat("HYBRID_DP_CP_GROUP_", size), group});
    }
  }
  return specs;
}

}  // namespace tessera

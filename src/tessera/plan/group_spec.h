#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/topology/rank.h"

namespace tessera {

enum class GroupBackend {
  kDefault,  // The one that belongs to the device of the tensors.
  kGloo,
};

/// One group that is to be created: who, under which name, on what.
struct GroupSpec {
  std::string name;
  RankGroup ranks;
  GroupBackend backend = GroupBackend::kDefault;
  std::optional<std::string> options = std::nullopt;  // The section of options that applies.

  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

struct HierarchyOptions {
  int64_t world = 0;        // Ranks from 0 to world-1 are allowed.
  std::string description;  // Names are HIERARCHICAL_<description>_L<level>.
  bool gloo_twins = false;  // A Gloo group of the same ranks right after each group.
  /// The section of options of each level, where any apply.
  std::optional<std::vector<std::optional<std::string>>> options = std::nullopt;
};

/// Megatron's create_hierarchical_groups as a list of groups, in its order of creation.
std::vector<GroupSpec> hierarchical_group_specs(std::span<const GlobalRank> ranks,
                                                std::span<const int64_t> sizes,
                                                const HierarchyOptions& options);

/// Megatron's create_hybrid_dp_cp_groups likewise; names are HYBRID_DP_CP_GROUP_<size>.
std::vector<GroupSpec> hybrid_group_specs(std::span<const GlobalRank> ranks, int64_t world);

}  // namespace tessera

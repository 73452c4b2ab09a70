#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/topology/rank.h"

namespace tessera {

/// The rank arithmetic of Megatron's create_hierarchical_groups: one list of groups per level.
///
/// Level 0 cuts `ranks` into consecutive runs of sizes[0]; level 1 joins sizes[1] of those runs
/// member by member, and so on. 16 ranks with sizes {2,2,4}: (0,1)…, (0,2)(1,3)…, (0,4,8,12)….
/// The product of the sizes must be the number of ranks; no sizes give no levels.
std::vector<std::vector<RankGroup>> hierarchical_groups(std::span<const GlobalRank> ranks,
                                                        std::span<const int64_t> sizes);

/// Consecutive chunks of `size` ranks; the last one is shorter where `size` does not divide.
struct HybridLevel {
  int64_t size = 0;
  std::vector<RankGroup> groups;
};

/// The rank arithmetic of Megatron's hybrid dp-cp groups: chunks of 2, 4, 8, … ranks, strictly
/// below the largest power of two that fits into the list.
std::vector<HybridLevel> hybrid_dp_cp_groups(std::span<const GlobalRank> ranks);

}  // namespace tessera

#include "tessera/topology/hierarchy.h"

#include <algorithm>
#include <bit>

#include "tessera/base/check.h"
#include "tessera/topology/layout.h"
#include "tessera/topology/rank_table.h"

namespace tessera {

std::vector<std::vector<RankGroup>> hierarchical_groups(std::span<const GlobalRank> ranks,
                                                        std::span<const int64_t> sizes) {
  if (sizes.empty()) return {};
  std::vector<AxisSize> axes;  // Level 0 is fastest, so it comes last.
  for (size_t level = sizes.size(); level-- > 0;) {
    axes.push_back({concat("level ", level), sizes[level]});
  }
  const Layout layout = Layout::from_ranks(axes, ranks);
  std::vector<std::vector<RankGroup>> levels;
  for (size_t level = 0; level < sizes.size(); ++level) {
    const GroupRange groups = layout.groups({concat("level ", level)});
    levels.emplace_back(groups.begin(), groups.end());
  }
  return levels;
}

std::vector<HybridLevel> hybrid_dp_cp_groups(std::span<const GlobalRank> ranks) {
  TSR_CHECK(!ranks.empty(), "hybrid groups of no ranks were asked for; give at least 1 rank");
  const RankTable checked(ranks);  // Refuses repeated and negative ranks.
  const size_t limit = std::bit_floor(ranks.size());
  std::vector<HybridLevel> levels;
  for (size_t size = 2; size < limit; size *= 2) {
    HybridLevel level{static_cast<int64_t>(size), {}};
    for (size_t begin = 0; begin < ranks.size(); begin += size) {
      const auto chunk = ranks.subspan(begin, std::min(size, ranks.size() - begin));
      level.groups.emplace_back(chunk.begin(), chunk.end());
    }
    levels.push_back(std::move(level));
  }
  return levels;
}

}  // namespace tessera

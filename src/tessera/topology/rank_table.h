#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/axis.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// Maps positions to ranks: position i of the grid is rank ranks[i]. Has the inverse, too.
class RankTable {
 public:
  /// ConfigError for negative and repeated ranks.
  explicit RankTable(std::span<const GlobalRank> ranks);

  /// The position must be in the table.
  GlobalRank rank(int64_t position) const { return ranks_[static_cast<size_t>(position)]; }
  /// Nothing if the rank is not in the table.
  std::optional<int64_t> position(GlobalRank rank) const;
  /// Replaces each position by its rank.
  void rename(RankGroup& positions) const;

 private:
  RankGroup ranks_;
  std::vector<int64_t> by_rank_;  // Positions, sorted by rank.
};

/// The positions along the extents from `first`, the first extent slowest; they are ranks unless a
/// table renames them.
RankGroup positions_along(int64_t first, std::span<const Extent> extents);

}  // namespace tessera

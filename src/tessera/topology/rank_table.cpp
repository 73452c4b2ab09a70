#include "tessera/topology/rank_table.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/base/reversed.h"

namespace tessera {

RankTable::RankTable(std::span<const GlobalRank> ranks)
    : ranks_(ranks.begin(), ranks.end()), by_rank_(ranks.size()) {
  std::iota(by_rank_.begin(), by_rank_.end(), int64_t{0});
  std::ranges::sort(by_rank_, {}, [this](int64_t at) { return rank(at); });
  for (size_t i = 0; i < by_rank_.size(); ++i) {
    const GlobalRank here = rank(by_rank_[i]);
    TSR_CHECK(here.value >= 0, "rank ", here, " is negative, but ranks must be at least 0");
    TSR_CHECK(i == 0 || here != rank(by_rank_[i - 1]), "rank ", here,
              " appears twice in the rank list; list every rank once");
  }
}

std::optional<int64_t> RankTable::position(GlobalRank wanted) const {
  const auto at =
      std::ranges::lower_bound(by_rank_, wanted, {}, [this](int64_t p) { return rank(p); });
  if (at == by_rank_.end() || rank(*at) != wanted) return std::nullopt;
  return *at;
}

void RankTable::rename(RankGroup& positions) const {
  for (GlobalRank& position : positions) position = rank(position.value);
}

RankGroup positions_along(int64_t first, std::span<const Extent> extents) {
  size_t total = 1;
  for (const Extent extent : extents) total *= static_cast<size_t>(extent.size);
  RankGroup positions(total, GlobalRank{first});
  size_t filled = 1;  // Positions of the inner extents come first and are copied outwards.
  for (const auto [size, stride] : reversed(extents)) {
    for (size_t copy = 1; copy < static_cast<size_t>(size); ++copy) {
      const int64_t shift = static_cast<int64_t>(copy) * stride;
      GlobalRank* const to = positions.data() + copy * filled;
      for (size_t i = 0; i < filled; ++i) to[i].value = positions[i].value + shift;
    }
    filled *= static_cast<size_t>(size);
  }
  return positions;
}

}  // namespace tessera

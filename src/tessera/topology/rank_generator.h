#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/layout.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// Megatron-Core's rank arithmetic: five parallel sizes and an order string, first entry fastest.
///
///   RankGenerator generator(2, 1, 3, 4, 1, "tp-dp-pp");
///   generator.get_ranks("dp");   // {0,2,4} {1,3,5} {6,8,10} …
///
/// The order string is any permutation of tp, cp, ep, dp and pp, in upper or lower case. It may
/// omit entries of size 1. Unlike Megatron, Tessera refuses repeated entries, sizes below 1 and a
/// negative offset, which would silently give wrong groups.
class RankGenerator {
 public:
  RankGenerator(int64_t tp, int64_t ep, int64_t dp, int64_t pp, int64_t cp, std::string_view order,
                int64_t rank_offset = 0);

  /// For each entry of `order`, whether `token` ("tp", "dp-cp", …) names it.
  static std::vector<bool> get_mask(std::string_view order, std::string_view token);
  /// The groups of `token`, in the order in which Megatron creates them.
  std::vector<RankGroup> get_ranks(std::string_view token) const;

  /// The order string in lower case, completed by the omitted entries.
  const std::string& order() const& { return order_; }
  std::string order() && { return std::move(order_); }
  /// The size of each entry of order().
  std::vector<int64_t> ordered_size() const;
  /// The product of the sizes; the rank offset does not count.
  int64_t world_size() const { return layout_.size(); }
  /// The same ranks as a layout, first axis fastest.
  const Layout& layout() const& { return layout_; }
  Layout layout() && { return std::move(layout_); }

 private:
  std::string order_;
  Layout layout_;
};

/// The axes that a token such as "dp-cp" names; ConfigError for unknown ones.
AxisNames axes_of_token(const Layout& layout, std::string_view token);

/// The groups along the masked sizes over ranks 0..world_size-1, first size fastest.
std::vector<RankGroup> generate_masked_orthogonal_rank_groups(
    int64_t world_size, std::span<const int64_t> parallel_size, const std::vector<bool>& mask);

}  // namespace tessera

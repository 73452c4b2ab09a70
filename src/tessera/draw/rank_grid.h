#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"
#include "tessera/plan/group_spec.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// One kind of group on the machine: which group each rank is in.
struct RankPanel {
  std::string label;                // "tp"
  std::string caption;              // "8 groups of 8, inside a node"
  std::vector<int64_t> group_of{};  // By rank.
};

/// Ranks as they sit on nodes, once per kind of group: what both pictures of a layout show.
struct RankGrid {
  int64_t world = 0;
  int64_t ranks_per_node = 8;
  std::vector<RankPanel> panels{};
  std::optional<GlobalRank> focus{};  // The rank whose groups stand out.

  int64_t num_nodes() const { return world / ranks_per_node + (world % ranks_per_node != 0); }
  /// How many ranks stand side by side: those of one node, or a part of it where it is large.
  int64_t columns() const;
  /// Whether the rank shares a group of this panel with the focus; true where there is no focus.
  bool stands_out(const RankPanel& panel, int64_t rank) const;
};

/// On how many nodes the group lies, whose ranks are in increasing order.
int64_t nodes_of(const RankGroup& group, int64_t ranks_per_node);
/// On how many nodes the widest of the groups lies. Looks at every group.
int64_t widest_span(const GroupFamily& groups, int64_t ranks_per_node);

/// The grid with one panel per kind of group; kinds that leave ranks out cannot be drawn.
RankGrid make_rank_grid(std::span<const GroupSpec> kinds, int64_t ranks_per_node,
                        std::optional<GlobalRank> focus);

/// The panels side by side; each cell shows the number of the rank's group.
std::string draw_terminal(const RankGrid& grid, const TerminalOptions& options);

/// The panels as a picture; each cell shows a rank, its colour the group.
std::string draw_svg(const RankGrid& grid, std::string_view title, std::string_view subtitle);

}  // namespace tessera

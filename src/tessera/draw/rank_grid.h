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

/// One kind of group on the machine: the group of each rank.
struct RankPanel {
  std::string label;                // "tp"
  std::string caption;              // "8 groups of 8, inside a node"
  std::vector<int64_t> group_of{};  // By rank.
};

/// Ranks by node, as both pictures of a layout show them.
struct RankGrid {
  int64_t world = 0;                  // Number of ranks.
  int64_t ranks_per_node = 8;         // The last node may have fewer.
  std::vector<RankPanel> panels{};    // One per kind of group.
  std::optional<GlobalRank> focus{};  // The rank whose groups are highlighted.

  /// Including a last node with fewer ranks.
  int64_t num_nodes() const { return world / ranks_per_node + (world % ranks_per_node != 0); }
  /// Ranks side by side: those of one node, or a part of it if the node is large.
  int64_t columns() const;
  /// Whether the rank shares a group of this panel with the focus; true if there is no focus.
  bool stands_out(const RankPanel& panel, int64_t rank) const;
};

/// The number of nodes that the group spans; its ranks are in increasing order.
int64_t nodes_of(const RankGroup& group, int64_t ranks_per_node);
/// The number of nodes that the widest group spans. Visits every group.
int64_t widest_span(const GroupFamily& groups, int64_t ranks_per_node);

/// The grid with one panel per kind of group; kinds that leave out ranks cannot be drawn.
RankGrid make_rank_grid(std::span<const GroupSpec> kinds, int64_t ranks_per_node,
                        std::optional<GlobalRank> focus);

/// The panels side by side; each cell shows the index of the rank's group.
std::string draw_terminal(const RankGrid& grid, const TerminalOptions& options);

/// The panels as a picture; each cell shows a rank, and its colour shows the group.
std::string draw_svg(const RankGrid& grid, std::string_view title, std::string_view subtitle);

}  // namespace tessera

#include "tessera/draw/rank_grid.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

std::string caption_of(const GroupFamily& groups, int64_t ranks_per_node) {
  const int64_t span = widest_span(groups, ranks_per_node);
  return concat(groups.count(), groups.count() == 1 ? " group of " : " groups of ", groups.size(),
                span == 1 ? ", inside a node" : concat(", over ", span, " nodes"));
}

}  // namespace

int64_t RankGrid::columns() const {
  constexpr int64_t kMost = 16;
  return std::min({ranks_per_node, world, kMost});
}

bool RankGrid::stands_out(const RankPanel& panel, int64_t rank) const {
  return !focus || panel.group_of[static_cast<size_t>(rank)] ==
                       panel.group_of[static_cast<size_t>(focus->value)];
}

int64_t nodes_of(const RankGroup& group, int64_t ranks_per_node) {
  int64_t nodes = 0;
  int64_t previous = -1;
  for (const GlobalRank rank : group) {
    const int64_t node = rank.value / ranks_per_node;
    if (node != previous) ++nodes;
    previous = node;
  }
  return nodes;
}

int64_t widest_span(const GroupFamily& groups, int64_t ranks_per_node) {
  int64_t widest = 0;
  for (const RankGroup& group : groups.groups()) {
    widest = std::max(widest, nodes_of(group, ranks_per_node));
  }
  return widest;
}

RankGrid make_rank_grid(std::span<const GroupSpec> kinds, int64_t ranks_per_node,
                        std::optional<GlobalRank> focus) {
  TSR_CHECK(ranks_per_node > 0, "a node has ", ranks_per_node, " GPUs; it has at least 1");
  TSR_CHECK(!kinds.empty(), "no kind of group was given to draw; give at least 1");
  TSR_CHECK(!focus || kinds[0].groups.layout().contains(*focus), "rank ",
            focus.value_or(GlobalRank{}), " is outside the world of ",
            kinds[0].groups.layout().size(), " ranks");
  RankGrid grid{.world = 0, .ranks_per_node = ranks_per_node, .panels = {}, .focus = focus};
  for (const GroupSpec& kind : kinds) {
    TSR_CHECK(kind.groups.covers(), kind.name,
              " leaves ranks out; draw kinds that every rank is in");
    grid.world = kind.groups.layout().size();
    RankPanel panel{kind.label, caption_of(kind.groups, ranks_per_node), {}};
    for (int64_t rank = 0; rank < grid.world; ++rank) {
      panel.group_of.push_back(
          kind.groups.index_of(GlobalRank{rank}).value_or(0));  // Every rank is in a group.
    }
    grid.panels.push_back(std::move(panel));
  }
  return grid;
}

}  // namespace tessera

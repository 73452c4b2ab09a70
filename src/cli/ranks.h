#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "tessera/draw/rank_grid.h"
#include "tessera/plan/megatron.h"

namespace tessera::cli {

/// What `tessera ranks` was asked to show.
struct RanksQuery {
  int64_t world = 1;
  MegatronConfig config;
  std::optional<GlobalRank> rank;
  int64_t gpus_per_node = 8;
};

/// A configuration that was asked about, and what it means.
struct RanksView {
  RanksQuery query;
  Plan plan;

  int64_t world() const { return plan.world(); }
  const Layout& decoder() const { return plan.layout("decoder"); }
  const Layout& expert() const { return plan.layout("expert"); }
};

/// The kinds along single axes of more than one rank: the panels of the pictures.
std::vector<GroupSpec> kinds_to_draw(const RanksView& view);

/// "64 ranks on 8 nodes of 8 GPUs".
std::string headline(const RanksView& view);

/// "tp 8 × cp 1 × dp 4 × pp 2" and the like.
struct SizeLines {
  std::string decoder;
  std::string experts;
  std::string order;
};
SizeLines size_lines(const RanksView& view);

void write_ranks_text(const RanksView& view, const TerminalOptions& terminal, std::ostream& out);
void write_ranks_json(const RanksView& view, std::ostream& out);

}  // namespace tessera::cli

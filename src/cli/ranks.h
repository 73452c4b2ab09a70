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
  MegatronSizes sizes;
  std::optional<GlobalRank> rank;
  int64_t gpus_per_node = 8;
};

/// A layout that was asked about, and its groups.
struct RanksView {
  RanksQuery query;
  MegatronGroups groups;

  int64_t world() const { return groups.decoder.size(); }
};

/// The kinds along single axes of more than one rank: the panels of the pictures.
std::vector<GroupKind> kinds_to_draw(const MegatronGroups& groups);

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

#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tessera/draw/rank_grid.h"
#include "tessera/draw/sequence_split.h"
#include "tessera/plan/dialect.h"
#include "tessera/plan/traffic.h"
#include "tessera/plan/translate.h"

namespace tessera::cli {

/// The layout to show.
struct RanksView {
  DialectPlan layout;
  Machine machine = {};
  std::optional<GlobalRank> rank = std::nullopt;
  std::optional<SequenceSplit> sequence = std::nullopt;

  int64_t world() const { return layout.plan.world(); }
  const Plan& plan() const { return layout.plan; }
};

/// A label of an axis and its layout; labels that occur in several layouts come once.
struct LabelledAxis {
  std::string label;
  const ShownLayout* shown = nullptr;
  std::string axis;
};
std::vector<LabelledAxis> labelled_axes(const RanksView& view);

/// The kinds along single axes with more than one rank: the panels of the pictures.
std::vector<GroupSpec> kinds_to_draw(const RanksView& view);

/// "64 ranks on 8 nodes of 8 GPUs".
std::string headline(const RanksView& view);

void write_ranks_text(const RanksView& view, const TerminalOptions& terminal, std::ostream& out);
void write_ranks_json(const RanksView& view, std::ostream& out);

/// A translation: its input and its result.
struct TranslationView {
  const DialectPlan& from;
  FlagValues flags;  // The flags of the input.
  const Dialect& to;
  Translation translation;
};

void write_translation_text(const TranslationView& view, std::ostream& out);
void write_translation_json(const TranslationView& view, std::ostream& out);

}  // namespace tessera::cli

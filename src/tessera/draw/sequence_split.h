#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"
#include "tessera/plan/context_layout.h"

namespace tessera TSR_API {

/// The most ranks that a picture of a split sequence shows.
inline constexpr int64_t kMostSplitRows = 64;  // Ranks that a picture of a sequence shows.

/// A sequence on its context-parallel ranks, as pictures show it.
struct SequenceSplit {
  std::string name;            // Of context_layouts().
  DocumentLengths documents;   // Of the sequence.
  ContextLayout layout;        // Which rank holds which positions.
  std::vector<int64_t> pairs;  // Of causal attention, by rank.

  /// The positions that pictures show: all, or the first ones if the layout changes rank too often.
  int64_t shown() const;
};
/// Which rank computes which tokens of the documents, in the named split.
SequenceSplit make_sequence_split(std::string_view name, const DocumentLengths& documents,
                                  int64_t ranks);

/// "all ranks compute 132 pairs of causal attention", or how far the busiest is above the mean.
std::string balance_text(const SequenceSplit& split);

/// One line per rank, with the positions that it holds and its causal pairs.
std::string draw_terminal(const SequenceSplit& split, const TerminalOptions& options);

}  // namespace tessera

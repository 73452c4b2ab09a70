#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/draw/sequence_split.h"
#include "tessera/plan/dialect.h"
#include "tessera/plan/traffic.h"

namespace tessera TSR_API {

/// The most ranks that a page shows.
inline constexpr int64_t kLargestPage = 4096;  // Ranks; keeps browsers fast and cells visible.

/// The content of a page.
struct LayoutPage {
  std::string title;                                // Also the heading.
  DialectPlan layout;                               // The ranks and groups that are shown.
  Machine machine = {};                             // Which ranks share a node or a rack.
  std::optional<TrainingStep> step = std::nullopt;  // If given, the page shows traffic volumes.
  std::optional<SequenceSplit> sequence = std::nullopt;  // If given, the page shows its layout.
};

/// The page as JSON: every kind of group with more than one rank; kinds with identical groups are
/// merged.
std::string page_json(const LayoutPage& page);

/// The whole page: self-contained HTML that opens from a file. Readers select a rank to see its
/// groups, or a kind of group to see all of its groups. ConfigError for worlds above kLargestPage.
std::string draw_page(const LayoutPage& page);

}  // namespace tessera

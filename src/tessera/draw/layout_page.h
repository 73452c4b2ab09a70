#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/plan/dialect.h"
#include "tessera/plan/traffic.h"

namespace tessera TSR_API {

inline constexpr int64_t kLargestPage = 4096;  // Ranks; a browser stays quick and cells visible.

/// What a page explains.
struct LayoutPage {
  std::string title;
  DialectPlan layout;
  Machine machine = {};
  std::optional<TrainingStep> step = std::nullopt;  // How much travels is told where it is given.
};

/// The page as JSON: every kind of group of more than one rank, kinds of the same groups as one.
std::string page_json(const LayoutPage& page);

/// The whole page: HTML that opens from a file and loads nothing. One chooses a rank and sees its
/// groups, or a kind of group and sees all of them. Worlds above kLargestPage raise ConfigError.
std::string draw_page(const LayoutPage& page);

}  // namespace tessera

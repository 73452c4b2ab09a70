#pragma once

#include <span>
#include <string>

#include "tessera/base/export.h"
#include "tessera/draw/timeline.h"

namespace tessera TSR_API {

/// The timelines one under the other on one time axis, a line a rank, with ruler and legend. Blocks
/// show their microbatch, and their type where there are no colours, as far as it
/// fits; where blocks are shorter than a character, each shows what happens in its middle.
std::string draw_terminal(std::span<const Timeline> timelines, const TerminalOptions& options);

/// What stands above a timeline: its name, shape and result.
std::string heading(const Timeline& timeline, const TerminalOptions& options);

/// Whether such a picture says anything: a line has room for its blocks, a screen for its ranks.
bool fits_terminal(std::span<const Timeline> timelines, const TerminalOptions& options);

}  // namespace tessera

#pragma once

#include <span>
#include <string>

#include "tessera/base/export.h"
#include "tessera/draw/timeline.h"

namespace tessera TSR_API {

/// The timelines stacked on one time axis, a line per rank, with ruler and legend. Blocks show
/// their microbatch as far as it fits, and their type if there are no colours. If blocks are
/// shorter than a character, each character shows what runs at its middle.
std::string draw_terminal(std::span<const Timeline> timelines, const TerminalOptions& options);

/// The heading of a timeline: its name, shape and result.
std::string heading(const Timeline& timeline, const TerminalOptions& options);

/// Whether such a picture is readable: blocks fit into a line, and ranks onto a screen.
bool fits_terminal(std::span<const Timeline> timelines, const TerminalOptions& options);

}  // namespace tessera

#pragma once

#include <ostream>
#include <span>

#include "tessera/base/export.h"
#include "tessera/draw/timeline.h"

namespace tessera TSR_API {

/// Writes the timelines as one trace: a process per timeline, a row per rank, arrows from each
/// block to the blocks that need its result, live activations as counters. A unit of time is shown
/// as a millisecond.
void write_timeline_trace(std::span<const Timeline> timelines, std::ostream& out);

}  // namespace tessera

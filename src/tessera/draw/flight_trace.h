#pragma once

#include <ostream>
#include <span>

#include "tessera/base/export.h"
#include "tessera/format/flight_dump.h"

namespace tessera TSR_API {

/// Writes the dumps of a run's ranks as one trace: a process per rank, rows per group, arrows
/// between the ranks of one operation. An unfinished operation lasts until its dump was written.
/// Timestamps come from each host's own clock.
void write_flight_trace(std::span<const FlightDump> dumps, std::ostream& out);

}  // namespace tessera

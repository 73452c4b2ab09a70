#pragma once

#include <ostream>
#include <span>

#include "tessera/base/export.h"
#include "tessera/format/flight_dump.h"

namespace tessera TSR_API {

/// The dumps of a run's ranks as one trace: a process for each rank, rows for each of its groups,
/// arrows between the ranks of one operation. What had not ended lasts until the dump was written.
/// Times are each host's own.
void write_flight_trace(std::span<const FlightDump> dumps, std::ostream& out);

}  // namespace tessera

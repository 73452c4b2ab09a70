#pragma once

#include "tessera/base/export.h"
#include "tessera/format/flight_dump.h"

namespace tessera TSR_API {

class Group;

/// The last operations of this rank in the world of `group`, up to 1,000; none in a world of one
/// rank. What the flight recorder would write to a file.
FlightDump recorded_operations(const Group& group);

}  // namespace tessera

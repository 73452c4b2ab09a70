#pragma once

#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/flight_analysis.h"
#include "tessera/format/flight_meeting.h"

namespace tessera TSR_API {

/// The operations in which ranks disagree about what is done, or about shapes and dtypes that must
/// be equal.
std::vector<FlightDifference> differences_in(std::span<const FlightMeeting> meetings);

}  // namespace tessera

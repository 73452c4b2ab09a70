#pragma once

#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/flight_analysis.h"
#include "tessera/format/flight_match.h"

namespace tessera TSR_API {

/// The operations in which ranks disagree about the kind of operation, or about shapes and dtypes
/// that must be equal.
std::vector<FlightDifference> differences_in(std::span<const FlightMatch> matches);

}  // namespace tessera

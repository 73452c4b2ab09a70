#pragma once

#include <ostream>
#include <string>

#include "tessera/base/color.h"
#include "tessera/format/flight_analysis.h"

namespace tessera::cli {

/// A duration in readable form: "0.4 ms", "31.2 s", "2 min 5 s", "3 h 12 min".
std::string time_text(int64_t ns);

/// The analysis in readable form: the position of each rank, stragglers and mismatches.
void write_flight_text(const std::string& title, const FlightAnalysis& analysis, ColorMode color,
                       std::ostream& out);

}  // namespace tessera::cli

#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// With so many decimals: "2.130".
std::string fixed(double value, int decimals);

/// "27.3 %" of 0.273.
std::string percent(double share);

}  // namespace tessera

#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// With so many decimals: "2.130".
std::string fixed(double value, int decimals);

/// The shortest text that is read as the same number: "0.1".
std::string exact_text(double value);

/// "27.3 %" of 0.273.
std::string percent(double share);

}  // namespace tessera

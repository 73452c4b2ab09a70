#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// 128 bits of the system's random numbers, in hexadecimal: a name that nobody can guess.
std::string random_name();

}  // namespace tessera

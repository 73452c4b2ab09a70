#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Bytes of memory that this machine, or the container that it is, has, with those that it can swap
/// out.
int64_t machine_memory();

std::string host_name();

}  // namespace tessera

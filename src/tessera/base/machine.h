#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The bytes of memory and swap of this machine or container.
int64_t machine_memory();

/// The name of this host.
std::string host_name();

}  // namespace tessera

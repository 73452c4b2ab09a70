#pragma once

#include <sys/types.h>

#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The processes of a group that have a handler for the signal, so that it does not end them.
std::vector<pid_t> handlers_of(int signal, pid_t group);

}  // namespace tessera

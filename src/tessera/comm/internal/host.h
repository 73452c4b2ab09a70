#pragma once

#include <string>

namespace tessera {

/// This host's name.
std::string host_name();

}  // namespace tessera

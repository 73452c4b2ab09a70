#pragma once

#include <string>

namespace tessera::cli {

/// How the user calls this program, for commands to copy: ./tessera in a checkout.
std::string called_as();

}  // namespace tessera::cli

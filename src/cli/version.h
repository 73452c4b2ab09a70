#pragma once

#include <string>

namespace tessera::cli {

/// What `tessera --version` prints: one line.
std::string version_text();

}  // namespace tessera::cli

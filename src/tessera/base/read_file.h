#pragma once

#include <cstddef>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The file's text, whatever it is; reading stops soon after `most` bytes. ConfigError for a
/// folder, DataError for what cannot be read.
std::string read_file(const std::string& path, size_t most);

}  // namespace tessera

#pragma once

#include <cstddef>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The file, open for reading. DataError where it cannot be opened, or is a folder, a pipe, a
/// device or a socket: reading those may wait forever, or never end. It does not wait even for a
/// pipe.
Descriptor open_plain_file(const std::string& path);

/// The file's text, whatever it is; reading stops soon after `most` bytes. ConfigError for a
/// folder, DataError for what cannot be read or is no plain file.
std::string read_file(const std::string& path, size_t most);

}  // namespace tessera

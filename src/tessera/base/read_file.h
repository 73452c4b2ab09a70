#pragma once

#include <cstddef>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The file, open for reading. DataError if it cannot be opened, or is a folder, a pipe, a device
/// or a socket, which could block or never end. Never blocks, not even for a pipe.
Descriptor open_plain_file(const std::string& path);

/// The content of the file; stops reading soon after `most` bytes. ConfigError for a folder,
/// DataError if it cannot be read or is not a regular file.
std::string read_file(const std::string& path, size_t most);

}  // namespace tessera

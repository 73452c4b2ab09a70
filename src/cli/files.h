#pragma once

#include <cstddef>
#include <string>

namespace tessera::cli {

/// The file's text, whatever it is; reading stops soon after `most` bytes. ConfigError for a
/// folder, DataError for what cannot be read.
std::string read_file(const std::string& path, size_t most);

/// DataError where it cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace tessera::cli

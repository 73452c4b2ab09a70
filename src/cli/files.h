#pragma once

#include <string>

#include "tessera/base/read_file.h"  // IWYU pragma: export

namespace tessera::cli {

/// DataError if the file cannot be written.
void write_file(const std::string& path, const std::string& text);

/// Whether the path, which need not exist, is the folder or below it.
bool lies_in(const std::string& path, const std::string& folder);

}  // namespace tessera::cli

#pragma once

#include <string_view>

#include "tessera/format/checkpoint/checkpoint.h"

namespace tessera::cli {

/// Compares the checksums of the files whose paths begin like this, with a bar on a terminal.
/// DataError naming the first file that is damaged.
void verify_files(const Checkpoint& checkpoint, std::string_view begin = "");

}  // namespace tessera::cli

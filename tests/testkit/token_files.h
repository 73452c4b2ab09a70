#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/testkit/temporary_folder.h"

namespace tessera::testkit {

/// A file of 32-bit numbers first, first + 1, …: each token tells its position.
inline std::string counting_file(const TemporaryFolder& folder, std::string_view name,
                                 int64_t count, int64_t first = 0) {
  std::string bytes;
  for (int64_t i = first; i < first + count; ++i) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(i >> shift);
  }
  return folder.file(name, bytes);
}

}  // namespace tessera::testkit

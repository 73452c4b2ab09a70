#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"

namespace tessera TSR_API {

/// What the header of a NumPy .npy file says. Arrays in Fortran order, big-endian ones, and
/// elements that are no plain numbers are refused.
struct NpyHeader {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};
  int64_t data_begin = 0;  // In the file.

  friend bool operator==(const NpyHeader&, const NpyHeader&) = default;
};

/// DataError with the offset for what is no .npy file of version 1 to 3, is cut off, or is longer
/// than its array.
NpyHeader parse_npy(std::span<const std::byte> file, std::string_view origin);

}  // namespace tessera

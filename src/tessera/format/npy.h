#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/dtype.h"

namespace tessera TSR_API {

/// The header of a NumPy .npy file. Arrays in Fortran order, big-endian arrays and elements that
/// are not plain numbers are refused.
struct NpyHeader {
  DType dtype = DType::kF32;        // Of the elements; little-endian.
  std::vector<int64_t> shape = {};  // Row-major; empty: a scalar.
  int64_t data_begin = 0;           // Offset in the file.

  friend bool operator==(const NpyHeader&, const NpyHeader&) = default;
};

/// DataError with the offset if the file is not .npy of version 1 to 3, is truncated, or is longer
/// than its array.
NpyHeader parse_npy(std::span<const std::byte> file, std::string_view origin);

}  // namespace tessera

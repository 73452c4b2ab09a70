#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The element types of safetensors, which all our formats use.
enum class DType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

/// The name in safetensors, e.g. "BF16".
std::string_view to_string(DType dtype);
/// The dtype of a safetensors name such as "BF16"; nothing if there is none.
std::optional<DType> parse_dtype(std::string_view name);
/// 4 and 6 for types whose elements share bytes.
int64_t bits_of(DType dtype);

/// The bytes of a tensor; nothing if a size is negative, if the number overflows int64_t, or if
/// elements that share bytes do not fill the last one.
std::optional<int64_t> bytes_of(DType dtype, std::span<const int64_t> shape);

}  // namespace tessera

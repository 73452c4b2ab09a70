#include "tessera/format/dtype.h"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int64_t bits;
};

constexpr std::array kRows{
    Row{DType::kBool, "BOOL", 8},      Row{DType::kF4, "F4", 4},
    Row{DType::kF6E2M3, "F6_E2M3", 6}, Row{DType::kF6E3M2, "F6_E3M2", 6},
    Row{DType::kU8, "U8", 8},          Row{DType::kI8, "I8", 8},
    Row{DType::kF8E5M2, "F8_E5M2", 8}, Row{DType::kF8E4M3, "F8_E4M3", 8},
    Row{DType::kF8E8M0, "F8_E8M0", 8}, Row{DType::kI16, "I16", 16},
    Row{DType::kU16, "U16", 16},       Row{DType::kF16, "F16", 16},
    Row{DType::kBF16, "BF16", 16},     Row{DType::kI32, "I32", 32},
    Row{DType::kU32, "U32", 32},       Row{DType::kF32, "F32", 32},
    Row{DType::kC64, "C64", 64},       Row{DType::kF64, "F64", 64},
    Row{DType::kI64, "I64", 64},       Row{DType::kU64, "U64", 64},
};

const Row& row_of(DType dtype) {
  return *std::ranges::find(kRows, dtype, &Row::dtype);
}

}  // namespace

std::string_view to_string(DType dtype) {
  return row_of(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  return row == kRows.end() ? std::nullopt : std::optional(row->dtype);
}

int64_t bits_of(DType dtype) {
  return row_of(dtype).bits;
}

std::optional<int64_t> bytes_of(DType dtype, std::span<const int64_t> shape) {
  int64_t bits = bits_of(dtype);
  // A tensor with a size of 0 is empty, however large the other sizes are.
  const bool empty = std::ranges::find(shape, 0) != shape.end();
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (!empty && __builtin_mul_overflow(bits, size, &bits)) return std::nullopt;
  }
  if (empty) return 0;
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

}  // namespace tessera

#include "tessera/checkpoint/internal/dtypes.h"

#include <algorithm>
#include <array>

#include "tessera/base/check.h"

namespace tessera::checkpoint::detail {
namespace {

struct Pair {
  DType stored;
  at::ScalarType dtype;
};

constexpr std::array kPairs{
    Pair{DType::kBool, at::kBool},
    Pair{DType::kU8, at::kByte},
    Pair{DType::kI8, at::kChar},
    Pair{DType::kF8E5M2, at::ScalarType::Float8_e5m2},
    Pair{DType::kF8E4M3, at::ScalarType::Float8_e4m3fn},
    Pair{DType::kI16, at::kShort},
    Pair{DType::kU16, at::ScalarType::UInt16},
    Pair{DType::kF16, at::kHalf},
    Pair{DType::kBF16, at::kBFloat16},
    Pair{DType::kI32, at::kInt},
    Pair{DType::kU32, at::ScalarType::UInt32},
    Pair{DType::kF32, at::kFloat},
    Pair{DType::kC64, at::kComplexFloat},
    Pair{DType::kF64, at::kDouble},
    Pair{DType::kI64, at::kLong},
    Pair{DType::kU64, at::ScalarType::UInt64},
};

}  // namespace

DType stored_dtype(at::ScalarType dtype) {
  const auto* const at = std::ranges::find(kPairs, dtype, &Pair::dtype);
  TSR_CHECK(at != kPairs.end(), "dtype ", dtype, " cannot be saved: safetensors does not have it");
  return at->stored;
}

at::ScalarType torch_dtype(DType dtype) {
  const auto* const at = std::ranges::find(kPairs, dtype, &Pair::stored);
  if (at != kPairs.end()) return at->dtype;
  throw DataError(
      concat("dtype ", to_string(dtype), " cannot be loaded: LibTorch does not have it"));
}

}  // namespace tessera::checkpoint::detail

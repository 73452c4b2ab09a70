#include "tessera/comm/shm/numbers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#define TSR_WIDE __attribute__((target("avx2,f16c")))
#else
#define TSR_WIDE
#endif
#define TSR_INLINE inline __attribute__((always_inline))

namespace tessera::comm::detail::shm {
namespace {

bool has_wide_vectors() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
#else
  return false;
#endif
}

// ---- Numbers and the type in which they are combined

struct Bfloat16 {
  uint16_t bits;
};

template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<Bfloat16> {
  using Type = float;
};
template <>
struct Wide<_Float16> {
  using Type = float;
};

template <class T>
TSR_INLINE typename Wide<T>::Type widen(T value) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
  } else {
    return static_cast<typename Wide<T>::Type>(value);
  }
}

// To the nearest; ties to even.
template <class T>
TSR_INLINE T narrow(typename Wide<T>::Type value) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t not_a_number = (bits >> 16) | 0x40;
    const bool is_number = (bits & 0x7fffffff) <= 0x7f800000;
    return {static_cast<uint16_t>(is_number ? rounded : not_a_number)};
  } else {
    return static_cast<T>(value);
  }
}

// ---- Reductions

// Integers wrap around, which is only defined for unsigned ones.
template <class T, class Operation>
TSR_INLINE T wrapping(T a, T b, Operation operation) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(operation(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return operation(a, b);
  }
}

// A minimum or maximum with a NaN is a NaN.
struct Sum {
  template <class T>
  TSR_INLINE T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Product {
  template <class T>
  TSR_INLINE T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Min {
  template <class T>
  TSR_INLINE T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};
struct Max {
  template <class T>
  TSR_INLINE T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct BitAnd {
  template <class T>
  TSR_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  TSR_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  TSR_INLINE T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

// ---- Loops

constexpr size_t kBlockBytes = 4096;  // Partial results of a block stay in the nearest cache.

using Rows = std::span<const std::byte* const>;

template <class T, class Operation>
TSR_INLINE void combine_two(T* output, const T* a, const T* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    output[i] = narrow<T>(Operation()(widen(a[i]), widen(b[i])));
  }
}

// From three inputs on, the output may be an input that is read later.
template <class T, class Operation>
TSR_INLINE void combine_block(T* output, Rows rows, size_t first, size_t count) {
  using Partial = typename Wide<T>::Type;
  alignas(64) Partial partial[kBlockBytes / sizeof(Partial)];
  const auto row = [&](size_t i) { return reinterpret_cast<const T*>(rows[i]) + first; };
  const T* const a = row(0);
  const T* const b = row(1);
  for (size_t i = 0; i < count; ++i) partial[i] = Operation()(widen(a[i]), widen(b[i]));
  for (size_t next = 2; next + 1 < rows.size(); ++next) {
    const T* const c = row(next);
    for (size_t i = 0; i < count; ++i) partial[i] = Operation()(partial[i], widen(c[i]));
  }
  const T* const last = row(rows.size() - 1);
  for (size_t i = 0; i < count; ++i) {
    output[first + i] = narrow<T>(Operation()(partial[i], widen(last[i])));
  }
}

template <class T, class Operation>
TSR_INLINE void combine(std::byte* output, Rows rows, size_t count) {
  T* const out = reinterpret_cast<T*>(output);
  if (rows.size() == 2) {
    return combine_two<T, Operation>(out, reinterpret_cast<const T*>(rows[0]),
                                     reinterpret_cast<const T*>(rows[1]), count);
  }
  constexpr size_t kBlock = kBlockBytes / sizeof(typename Wide<T>::Type);
  for (size_t first = 0; first < count; first += kBlock) {
    combine_block<T, Operation>(out, rows, first, std::min(kBlock, count - first));
  }
}

template <class T, class Operation>
void combine_narrow(std::byte* output, Rows rows, size_t count) {
  combine<T, Operation>(output, rows, count);
}

template <class T, class Operation>
TSR_WIDE void combine_wide(std::byte* output, Rows rows, size_t count) {
  combine<T, Operation>(output, rows, count);
}

template <class T, class Operation>
void combine_here(std::byte* output, Rows rows, size_t count) {
  (has_wide_vectors() ? combine_wide<T, Operation> : combine_narrow<T, Operation>)(output, rows,
                                                                                   count);
}

template <class T>
void reduce_as(Reduction reduction, std::byte* output, Rows rows, size_t count) {
  constexpr bool kIsInteger = std::is_integral_v<T>;
  switch (reduction) {
    case Reduction::kSum:
      return combine_here<T, Sum>(output, rows, count);
    case Reduction::kProduct:
      return combine_here<T, Product>(output, rows, count);
    case Reduction::kMin:
      return combine_here<T, Min>(output, rows, count);
    case Reduction::kMax:
      return combine_here<T, Max>(output, rows, count);
    case Reduction::kBitAnd:
      if constexpr (kIsInteger) return combine_here<T, BitAnd>(output, rows, count);
      break;
    case Reduction::kBitOr:
      if constexpr (kIsInteger) return combine_here<T, BitOr>(output, rows, count);
      break;
    case Reduction::kBitXor:
      if constexpr (kIsInteger) return combine_here<T, BitXor>(output, rows, count);
      break;
  }
}

// ---- Copies

constexpr size_t kPieceBytes = 32;

#if defined(__clang__)
#define TSR_NO_MEMCPY
#else
#define TSR_NO_MEMCPY __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

#if defined(__x86_64__)
TSR_WIDE TSR_NO_MEMCPY size_t copy_pieces(std::byte* to, const std::byte* from, size_t bytes) {
  size_t at = 0;
  for (; at + 4 * kPieceBytes <= bytes; at += 4 * kPieceBytes) {
    const auto piece = [&](size_t i) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + i * kPieceBytes));
    };
    const __m256i a = piece(0), b = piece(1), c = piece(2), d = piece(3);
    __m256i* const out = reinterpret_cast<__m256i*>(to + at);
    _mm256_storeu_si256(out, a);
    _mm256_storeu_si256(out + 1, b);
    _mm256_storeu_si256(out + 2, c);
    _mm256_storeu_si256(out + 3, d);
  }
  return at;
}

// The target must be aligned to 32 bytes.
TSR_WIDE size_t stream_pieces(std::byte* to, const std::byte* from, size_t bytes) {
  size_t at = 0;
  for (; at + 2 * kPieceBytes <= bytes; at += 2 * kPieceBytes) {
    const auto* const in = reinterpret_cast<const __m256i*>(from + at);
    const __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
    __m256i* const out = reinterpret_cast<__m256i*>(to + at);
    _mm256_stream_si256(out, a);
    _mm256_stream_si256(out + 1, b);
  }
  _mm_sfence();
  return at;
}
#endif

}  // namespace

size_t size_of(Number number) {
  switch (number) {
    case Number::kDouble:
    case Number::kInt64:
      return 8;
    case Number::kFloat:
    case Number::kInt32:
      return 4;
    case Number::kHalf:
    case Number::kBfloat16:
      return 2;
    case Number::kInt8:
    case Number::kUint8:
      return 1;
  }
  return 1;
}

void reduce_rows(Number number, Reduction reduction, std::byte* output, Rows inputs, size_t count) {
  switch (number) {
    case Number::kFloat:
      return reduce_as<float>(reduction, output, inputs, count);
    case Number::kDouble:
      return reduce_as<double>(reduction, output, inputs, count);
    case Number::kHalf:
      return reduce_as<_Float16>(reduction, output, inputs, count);
    case Number::kBfloat16:
      return reduce_as<Bfloat16>(reduction, output, inputs, count);
    case Number::kInt64:
      return reduce_as<int64_t>(reduction, output, inputs, count);
    case Number::kInt32:
      return reduce_as<int32_t>(reduction, output, inputs, count);
    case Number::kInt8:
      return reduce_as<int8_t>(reduction, output, inputs, count);
    case Number::kUint8:
      return reduce_as<uint8_t>(reduction, output, inputs, count);
  }
}

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes, bool past_cache) {
  if (bytes == 0) return;  // Empty tensors have no memory.
  size_t at = 0;
#if defined(__x86_64__)
  constexpr size_t kFew = 512;
  if (has_wide_vectors() && bytes >= kFew) {
    if (past_cache) {
      at = (kPieceBytes - reinterpret_cast<uintptr_t>(to) % kPieceBytes) % kPieceBytes;
      std::memcpy(to, from, at);
      at += stream_pieces(to + at, from + at, bytes - at);
    } else {
      at = copy_pieces(to, from, bytes);
    }
  }
#else
  (void)past_cache;
#endif
  std::memcpy(to + at, from + at, bytes - at);
}

void copy_for_others(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kFewPages = size_t{16} << 10;
  copy_bytes(to, from, bytes, bytes >= kFewPages);
}

}  // namespace tessera::comm::detail::shm

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// Copies and sums of numbers, without tensors.
namespace tessera::comm::detail::shm {

enum class Number : uint8_t { kFloat, kDouble, kHalf, kBfloat16, kInt64, kInt32, kInt8, kUint8 };
enum class Reduction : uint8_t { kSum, kProduct, kMin, kMax, kBitAnd, kBitOr, kBitXor };

size_t size_of(Number number);

/// Combines the inputs element by element, from the first to the last, so that every rank gets the
/// same bits. 16-bit floats are combined as 32-bit ones and rounded once. `output` may be one of
/// the inputs.
void reduce_rows(Number number, Reduction reduction, std::byte* output,
                 std::span<const std::byte* const> inputs, size_t count);

/// Outputs of so many bytes are written past the cache: they would only push out other data.
inline constexpr size_t kPastCache = size_t{8} << 20;

/// memcpy is slow on some processors for targets that are not aligned like their sources.
void copy_bytes(std::byte* to, const std::byte* from, size_t bytes, bool past_cache = false);

/// The same into memory that another core reads next. From a few pages on, past the cache: a core
/// gets what another one has modified in its cache more slowly than what lies in memory.
void copy_for_others(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace tessera::comm::detail::shm

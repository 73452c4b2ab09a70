#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/normal_quantile.h"
#include "tessera/base/philox.h"

namespace tessera::base::detail {

/// The most values per call of the functions below: their buffers stay in the L1 cache.
inline constexpr size_t kRandomBatch = 256;

/// A buffer for that many, aligned for vectors.
template <class T, size_t size = kRandomBatch>
struct alignas(64) RandomBuffer : std::array<T, size> {};

/// The probabilities of the elements from `first` on, strictly between 0 and 1 and never rounded:
/// odd multiples of 2^-33, from one word each.
void units_of_32_bits(const RandomStream& stream, uint64_t first, std::span<double> out);
/// The same from two words each: odd multiples of 2^-53.
void units_of_52_bits(const RandomStream& stream, uint64_t first, std::span<double> out);

/// Maps probabilities to quantiles of the standard normal distribution, or of a part of it.
void normal_quantiles(const NormalParts& parts, std::span<double> values);

/// out = offset + scale · values, rounded once to the type of `out`, and clamped to the bounds.
void scale_into(std::span<const double> values, double offset, double scale, float low, float high,
                float* out);
void scale_into(std::span<const double> values, double offset, double scale, double low,
                double high, double* out);

}  // namespace tessera::base::detail

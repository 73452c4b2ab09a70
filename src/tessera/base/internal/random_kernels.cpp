// The loops of the random numbers, in a form that compilers vectorize. They are compiled once per
// vector width; CMakeLists.txt forbids contraction to fused multiply-adds, so that all of them
// round alike.
#include "tessera/base/internal/random_kernels.h"

#include <bit>
#include <cmath>

#include "tessera/base/internal/normal_pieces.h"

// The thread sanitizer is not initialized yet when the loader selects a clone.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_THREAD__)
#define TSR_EACH_VECTOR_WIDTH __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define TSR_EACH_VECTOR_WIDTH
#endif

namespace tessera::base::detail {
namespace {

constexpr uint64_t kOne = std::bit_cast<uint64_t>(1.0);
using Words = RandomBuffer<uint32_t, 2 * kRandomBatch + 4>;

constexpr uint32_t low_half(uint64_t value) {
  return static_cast<uint32_t>(value);
}

constexpr uint32_t high_half(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

TSR_EACH_VECTOR_WIDTH
void blocks(const RandomStream& stream, uint64_t first, size_t count, uint32_t* words) {
  const RandomStream own = stream;  // A copy, which cannot alias `words`.
  for (size_t i = 0; i < count; ++i) {
    const uint64_t block = first + i;
    const auto four =
        philox4x32({low_half(block), high_half(block), low_half(own.id), high_half(own.id)},
                   {low_half(own.seed), high_half(own.seed)});
    for (size_t j = 0; j < 4; ++j) words[4 * i + j] = four[j];
  }
}

/// Fills `words` from word number `first` on; returns a pointer to that word.
const uint32_t* words_from(const RandomStream& stream, uint64_t first, size_t count, Words& words) {
  const size_t skipped = first % 4;
  blocks(stream, first / 4, (skipped + count + 3) / 4, words.data());
  return words.data() + skipped;
}

// Random bits as the fraction of a number from 1 to 2; subtracting slightly less than 1 is exact.
TSR_EACH_VECTOR_WIDTH
void to_units_of_32_bits(const uint32_t* words, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = std::bit_cast<double>(kOne | uint64_t{words[i]} << 20) - (1 - 0x1p-33);
  }
}

TSR_EACH_VECTOR_WIDTH
void to_units_of_52_bits(const uint32_t* words, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = uint64_t{words[2 * i + 1]} << 32 | words[2 * i];
    out[i] = std::bit_cast<double>(kOne | bits >> 12) - (1 - 0x1p-53);
  }
}

TSR_EACH_VECTOR_WIDTH
void all_central(const NormalParts& parts, size_t count, double* values, double* middle,
                 double* tail) {
  const NormalParts own = parts;
  for (size_t i = 0; i < count; ++i) {
    const Probability p = own.at(values[i]);
    middle[i] = p.from_middle();
    tail[i] = p.tail();
    values[i] = central_quantile(middle[i]);
  }
}

TSR_EACH_VECTOR_WIDTH
void all_tails(size_t count, double* tail) {
  for (size_t i = 0; i < count; ++i) tail[i] = tail_quantile(tail[i]);
}

template <class T>
[[gnu::always_inline]] inline void scale_all(const double* values, size_t count, double offset,
                                             double scale, T low, T high, T* out) {
  for (size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(offset + scale * values[i]);
    const T above = value < low ? low : value;
    out[i] = above > high ? high : above;
  }
}

TSR_EACH_VECTOR_WIDTH
void scale_floats(const double* values, size_t count, double offset, double scale, float low,
                  float high, float* out) {
  scale_all(values, count, offset, scale, low, high, out);
}

TSR_EACH_VECTOR_WIDTH
void scale_doubles(const double* values, size_t count, double offset, double scale, double low,
                   double high, double* out) {
  scale_all(values, count, offset, scale, low, high, out);
}

}  // namespace

void units_of_32_bits(const RandomStream& stream, uint64_t first, std::span<double> out) {
  Words words;
  to_units_of_32_bits(words_from(stream, first, out.size(), words), out.size(), out.data());
}

void units_of_52_bits(const RandomStream& stream, uint64_t first, std::span<double> out) {
  Words words;
  to_units_of_52_bits(words_from(stream, 2 * first, 2 * out.size(), words), out.size(), out.data());
}

// One value in seven lies in the tails, whose formula is expensive: collects those separately.
void normal_quantiles(const NormalParts& parts, std::span<double> values) {
  RandomBuffer<double> middle;
  RandomBuffer<double> tail;
  RandomBuffer<size_t> place;
  all_central(parts, values.size(), values.data(), middle.data(), tail.data());
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {  // Without an unpredictable branch.
    tail[count] = tail[i];
    place[count] = i;
    count += static_cast<size_t>(is_tail(middle[i]));
  }
  all_tails(count, tail.data());
  for (size_t i = 0; i < count; ++i) {
    values[place[i]] = std::copysign(tail[i], middle[place[i]]);
  }
}

void scale_into(std::span<const double> values, double offset, double scale, float low, float high,
                float* out) {
  scale_floats(values.data(), values.size(), offset, scale, low, high, out);
}

void scale_into(std::span<const double> values, double offset, double scale, double low,
                double high, double* out) {
  scale_doubles(values.data(), values.size(), offset, scale, low, high, out);
}

}  // namespace tessera::base::detail

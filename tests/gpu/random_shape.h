// What the tests of kernels draw their operands from.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <span>

#include "tests/gpu/device.h"

namespace tessera {

inline constexpr std::array kDtypes{at::kFloat, at::kBFloat16, at::kHalf};

// Not at the beginning of its memory, where kernels load several elements at once.
inline at::Tensor shifted(const at::Tensor& values) {
  const at::Tensor memory = at::empty({values.numel() + 1}, values.options());
  const at::Tensor moved = memory.narrow(0, 1, values.numel()).view(values.sizes());
  moved.copy_(values);
  return moved;
}

// Draws from `seed` the shapes of one round.
class RandomShape {
 public:
  explicit RandomShape(uint64_t seed) : random_(seed) {}
  int64_t up_to(int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random_); }
  bool flip() { return up_to(2) == 1; }
  at::ScalarType one_of(std::span<const at::ScalarType> dtypes) {
    return dtypes[static_cast<size_t>(up_to(std::ssize(dtypes)) - 1)];
  }

 private:
  std::mt19937_64 random_;
};

// Repeated with TESSERA_SEED, the seed that a failure prints.
template <class Check>
void for_random_shapes(const Check& check) {
  const char* const fixed = std::getenv("TESSERA_SEED");
  const uint64_t seed =
      fixed == nullptr ? std::random_device{}() : std::strtoull(fixed, nullptr, 10);
  for (int64_t round = 0; round < (fixed == nullptr ? kRandomShapes : 1); ++round) {
    const uint64_t of_round = seed + static_cast<uint64_t>(round);
    SCOPED_TRACE(c10::str("TESSERA_SEED=", of_round));
    check(of_round);
  }
}

}  // namespace tessera

// The exact bits of the random values. This file is also built with random numbers compiled without
// optimisation and for the native machine: all must agree.
#include <gtest/gtest.h>

#include <bit>
#include <type_traits>
#include <vector>

#include "tessera/base/random.h"

namespace tessera {
namespace {

template <class T>
uint64_t digest(const Distribution& distribution) {
  std::vector<T> values(100'003);
  Sampler({.seed = 42, .name = "tok_embeddings.weight"}, distribution).fill(1, std::span(values));
  uint64_t hash = 0;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  for (const T value : values) hash = (hash ^ std::bit_cast<Bits>(value)) * 0x9e3779b97f4a7c15;
  return hash;
}

TEST(RandomBits, OfUniformValuesAreTheSameEverywhere) {
  EXPECT_EQ(digest<float>(Uniform{-1, 3}), 5416444357654305620U);
  EXPECT_EQ(digest<double>(Uniform{-1, 3}), 5250371846089143609U);
}

TEST(RandomBits, OfNormalValuesAreTheSameEverywhere) {
  EXPECT_EQ(digest<float>(Normal{0, 0.02}), 10928069259742208716U);
  EXPECT_EQ(digest<double>(Normal{0, 0.02}), 13152805495139962974U);
}

TEST(RandomBits, OfTruncatedNormalValuesAreTheSameEverywhere) {
  EXPECT_EQ(digest<float>(TruncatedNormal{0.5, 2, -3, 4}), 10833715747964595920U);
  EXPECT_EQ(digest<double>(TruncatedNormal{0.5, 2, -3, 4}), 10901939986118617364U);
}

TEST(RandomBits, OfMasksAreTheSameEverywhere) {
  EXPECT_EQ(digest<float>(Bernoulli{0.9}), 1296367266220212224U);
}

}  // namespace
}  // namespace tessera

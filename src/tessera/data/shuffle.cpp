#include "tessera/data/shuffle.h"

#include <algorithm>
#include <bit>

#include "tessera/base/check.h"
#include "tessera/base/philox.h"

namespace tessera {
namespace {

constexpr uint32_t kRounds = 8;  // Four make a good cipher; small halves need more.

// A Feistel network: each round is a bijection, whatever it mixes into the changing half.
uint64_t permuted(uint64_t value, int half_bits, const ShuffleKey& key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto words =
        philox4x32({static_cast<uint32_t>(right), key.source * kRounds + round,
                    static_cast<uint32_t>(key.epoch), static_cast<uint32_t>(key.epoch >> 32)},
                   {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
    const uint64_t mixed = left ^ (words[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t shuffled(int64_t index, int64_t size, const ShuffleKey& key) {
  TSR_CHECK(index >= 0 && index < size, "index ", index, " is not in 0 … ", size - 1);
  const auto end = static_cast<uint64_t>(size);
  const int half_bits = std::max(1, (static_cast<int>(std::bit_width(end - 1)) + 1) / 2);
  auto value = static_cast<uint64_t>(index);
  do {  // The network permutes up to 4 · size values: follow the cycle to one below size.
    value = permuted(value, half_bits, key);
  } while (value >= end);
  return static_cast<int64_t>(value);
}

}  // namespace tessera

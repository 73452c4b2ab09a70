#pragma once

#include <array>
#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): four
/// random words as a function of a counter and a key, so that any of them can be computed directly.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

/// Identifies a stream of random words.
struct RandomStream {
  uint64_t seed = 0;  // Philox's key.
  uint64_t id = 0;    // The upper half of Philox's counter.
};

}  // namespace tessera

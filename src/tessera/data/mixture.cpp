#include "tessera/data/mixture.h"

#include <cmath>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/base/philox.h"

namespace tessera {
namespace {

constexpr uint64_t kOne = uint64_t{1} << 32;

uint64_t phase_of(uint64_t seed, size_t level) {
  return philox4x32({static_cast<uint32_t>(level), 0, 0, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[0];
}

// floor((samples·share + phase) / 2^32); both halves of the product fit into 64 bits.
int64_t taken(uint64_t samples, uint64_t share, uint64_t phase) {
  const uint64_t low = (samples % kOne) * share + phase;
  return static_cast<int64_t>((samples / kOne) * share + low / kOne);
}

}  // namespace

Mixture::Mixture(std::span<const double> shares, uint64_t seed) {
  for (size_t i = 0; i + 1 < shares.size(); ++i) {
    const double left =
        std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(i), shares.end(), 0.0);
    const double share = std::round(shares[i] / left * static_cast<double>(kOne));
    TSR_CHECK(share >= 1 && share < static_cast<double>(kOne), "a share of ", shares[i],
              " among sources of ", left, " is too small; weights may differ by up to 2^32");
    levels_.push_back({static_cast<uint64_t>(share), phase_of(seed, i)});
  }
}

Mixture::Pick Mixture::at(int64_t sample) const {
  for (size_t i = 0; i < levels_.size(); ++i) {
    const auto& [share, phase] = levels_[i];
    const auto number = static_cast<uint64_t>(sample);
    const int64_t before = taken(number, share, phase);
    if (taken(number + 1, share, phase) > before) return {i, before};
    sample -= before;  // The later sources share the rest in the same way.
  }
  return {levels_.size(), sample};
}

}  // namespace tessera

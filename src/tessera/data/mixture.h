#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Which source each sample of a run comes from, and which one of that source it is: a function of
/// the sample's number, without memory of those before. After any number of samples every source
/// has given its share of them to within a few samples. docs/data.md has the rule.
class Mixture {
 public:
  /// ConfigError for shares that are too small to be met: below 2^-32 of what is left.
  Mixture(std::span<const double> shares, uint64_t seed);

  struct Pick {
    size_t source = 0;
    int64_t index = 0;  // Counted from 0 in each source.

    friend bool operator==(const Pick&, const Pick&) = default;
  };
  Pick at(int64_t sample) const;

 private:
  struct Level {
    uint64_t share = 0;  // Of what the sources before it leave, in 2^-32.
    uint64_t phase = 0;  // Below 2^32.
  };
  std::vector<Level> levels_;  // One for each source but the last, which takes the rest.
};

}  // namespace tessera

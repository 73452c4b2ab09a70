#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Maps each sample of a run to a source and an index in that source: a function of only the
/// sample's number. After any number of samples, every source has contributed its share to within a
/// few samples. docs/data.md has the rule.
class Mixture {
 public:
  /// ConfigError for a share below 2^-32 of what the earlier sources leave.
  Mixture(std::span<const double> shares, uint64_t seed);

  /// The place of a sample.
  struct Pick {
    size_t source = 0;  // Index in the shares.
    int64_t index = 0;  // Counted from 0 in each source.

    friend bool operator==(const Pick&, const Pick&) = default;
  };
  /// Where a sample of the run comes from; samples count from 0.
  Pick at(int64_t sample) const;

 private:
  struct Level {
    uint64_t share = 0;  // Of what the earlier sources leave, in units of 2^-32.
    uint64_t phase = 0;  // Below 2^32.
  };
  std::vector<Level> levels_;  // One for each source but the last, which takes the rest.
};

}  // namespace tessera

#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Selects one of the orders.
struct ShuffleKey {
  uint64_t seed = 0;    // The same for all sources and epochs of a run.
  uint32_t source = 0;  // Index of the source in the data.
  uint64_t epoch = 0;   // Of this source, from 0.
};

/// The place of index 0 … size-1 in the shuffled order of `key`, a permutation. Needs no table: any
/// index of any epoch costs the same. docs/data.md defines it to the bit.
int64_t shuffled(int64_t index, int64_t size, const ShuffleKey& key);

}  // namespace tessera

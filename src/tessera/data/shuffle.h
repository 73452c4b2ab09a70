#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Which order is meant.
struct ShuffleKey {
  uint64_t seed = 0;
  uint32_t source = 0;
  uint64_t epoch = 0;
};

/// Where index 0 … size-1 goes in the order of the key: another index, each one once. No table: any
/// index of any epoch costs the same. docs/data.md defines it to the bit.
int64_t shuffled(int64_t index, int64_t size, const ShuffleKey& key);

}  // namespace tessera

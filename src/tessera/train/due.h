#pragma once

#include <cstdint>

namespace tessera {

/// Whether what happens every `every` steps happens after this step, which counts from 0. If
/// `every` is 0, it never does.
constexpr bool is_due(int64_t step, int64_t every) {
  return every > 0 && (step + 1) % every == 0;
}

}  // namespace tessera

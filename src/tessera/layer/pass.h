#pragma once

#include "tessera/base/export.h"
#include "tessera/layer/kept_results.h"
#include "tessera/layer/weight_gradients.h"

namespace tessera TSR_API {

/// Arguments of a forward pass, in addition to its input.
struct Pass {
  /// Where layers put their weight gradients; null if the backward pass computes them itself.
  const WeightGradients* deferred = nullptr;
  /// Where expensive layers keep their results for a second run; null if they keep none.
  KeptResults* kept = nullptr;
};

}  // namespace tessera

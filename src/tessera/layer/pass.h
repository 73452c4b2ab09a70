#pragma once

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/layer/kept_results.h"
#include "tessera/layer/weight_gradients.h"

namespace tessera TSR_API {

/// How the layers of parallel/tensor/ split their work over the ranks of a group.
struct TensorParallel {
  Group group;
  /// Sequence parallelism: outside of these layers each rank holds its share of the positions, and
  /// all-gathers and reduce-scatters replace the all-reduces.
  bool sequence = true;
  /// Cuts products into pieces that overlap with their communication. Only with `sequence`.
  bool async = false;
};

/// Arguments of a forward pass, in addition to its input.
struct Pass {
  /// Where layers put their weight gradients; null if the backward pass computes them itself.
  const WeightGradients* deferred = nullptr;
  /// Where expensive layers keep their results for a second run; null if they keep none.
  KeptResults* kept = nullptr;
  /// Null if no layer is split over ranks, like a group of one. It must live until the end of the
  /// backward pass.
  const TensorParallel* tensor = nullptr;
};

}  // namespace tessera

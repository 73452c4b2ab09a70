#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/export.h"
#include "tessera/base/random.h"
#include "tessera/topology/box.h"

namespace at {
class Tensor;
}

namespace tessera TSR_API {

class DTensor;

/// Zeros each element of `x` with probability p and divides the others by 1 - p. Which elements are
/// zero only depends on the key and the element's global index; use another `call` in each step.
/// Differentiable.
at::Tensor dropout(const at::Tensor& x, const Box& box, std::span<const int64_t> global_shape,
                   const RandomKey& key, double p);
/// The same for a shard in several pieces, as returned by local_boxes.
at::Tensor dropout(const at::Tensor& x, std::span<const Box> pieces,
                   std::span<const int64_t> global_shape, const RandomKey& key, double p);

/// The same for a sharded tensor, which must not be Partial. Local.
DTensor dropout(const DTensor& x, const RandomKey& key, double p);

}  // namespace tessera

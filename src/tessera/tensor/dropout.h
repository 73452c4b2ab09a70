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

/// `x` with each element zero with probability p, and otherwise divided by 1 - p. Which ones
/// depends on the key (whose `call` is to differ from step to step) and on the element's global
/// index alone. Differentiable.
at::Tensor dropout(const at::Tensor& x, const Box& box, std::span<const int64_t> global_shape,
                   const RandomKey& key, double p);
/// The same for a shard in several pieces, as local_boxes gives them.
at::Tensor dropout(const at::Tensor& x, std::span<const Box> pieces,
                   std::span<const int64_t> global_shape, const RandomKey& key, double p);

/// The same for a sharded tensor, which must not be Partial. Local.
DTensor dropout(const DTensor& x, const RandomKey& key, double p);

}  // namespace tessera

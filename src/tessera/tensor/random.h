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
class ShardedFlatTensor;

/// Fills a shard with the values that its elements have in the whole tensor: those of the
/// distribution under the key and the element's global index. However a tensor is cut, its elements
/// are the same bit for bit, and nobody makes more than his own. Local; autograd does not see it.
///
///   init_(weight, box, global_shape, {.seed = 7, .name = "layers.0.wq"}, Normal{.std = 0.02});
///
/// float and double have a definition each; bfloat16 and half are the float rounded to the nearest,
/// bool says whether it is not 0. On other devices the values are made on the CPU and copied.
void init_(const at::Tensor& shard, const Box& box, std::span<const int64_t> global_shape,
           const RandomKey& key, const Distribution& distribution);
/// The same for a shard in several pieces, as local_boxes gives them.
void init_(const at::Tensor& shard, std::span<const Box> pieces,
           std::span<const int64_t> global_shape, const RandomKey& key,
           const Distribution& distribution);
/// The same for runs of the flattened tensor, one after the other in `shard`.
void init_(const at::Tensor& shard, std::span<const Span> runs, const RandomKey& key,
           const Distribution& distribution);

/// The same for what this rank holds of a sharded tensor. Both are handles, as at::Tensor is: every
/// copy of the handle has the new values. A Partial tensor, whose ranks hold terms, is refused.
void init_(const DTensor& tensor, const RandomKey& key, const Distribution& distribution);
void init_(const ShardedFlatTensor& tensor, const RandomKey& key, const Distribution& distribution);

}  // namespace tessera

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

/// Fills a shard with the values that its elements have in the full tensor. They only depend on the
/// distribution, the key and the element's global index. So a tensor has the same bits however it
/// is sharded, and each rank only computes its own shard. Local; not seen by autograd.
///
///   init_(weight, box, global_shape, {.seed = 7, .name = "layers.0.wq"}, Normal{.std = 0.02});
///
/// float and double values are defined separately. bfloat16 and half are the float, rounded to the
/// nearest; bool is whether the float is not 0. For other devices, values are computed on the CPU
/// and copied.
void init_(const at::Tensor& shard, const Box& box, std::span<const int64_t> global_shape,
           const RandomKey& key, const Distribution& distribution);
/// The same for a shard in several pieces, as returned by local_boxes.
void init_(const at::Tensor& shard, std::span<const Box> pieces,
           std::span<const int64_t> global_shape, const RandomKey& key,
           const Distribution& distribution);
/// The same for runs of the flattened tensor, stored one after the other in `shard`.
void init_(const at::Tensor& shard, std::span<const Span> runs, const RandomKey& key,
           const Distribution& distribution);

/// The same for this rank's part of a sharded tensor. Both are handles like at::Tensor: every copy
/// has the new values. ConfigError for a Partial tensor.
void init_(const DTensor& tensor, const RandomKey& key, const Distribution& distribution);
/// The values of a sharded tensor: the same as those of the whole one.
void init_(const ShardedFlatTensor& tensor, const RandomKey& key, const Distribution& distribution);

}  // namespace tessera

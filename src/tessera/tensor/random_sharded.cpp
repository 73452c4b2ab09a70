// Initializers and dropout for sharded tensors.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

#include "tessera/base/check.h"
#include "tessera/tensor/dropout.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/random.h"
#include "tessera/tensor/sharded_flat_tensor.h"

namespace tessera {
namespace {

void check_not_partial(const DTensor& tensor, std::string_view what) {
  const auto is_partial = [](const Placement& p) { return std::holds_alternative<Partial>(p); };
  TSR_CHECK(std::ranges::none_of(tensor.placements(), is_partial), what, " of ", tensor,
            " is not possible, because it is Partial; redistribute it to R or a shard first");
}

/// The boxes that this rank holds; empty outside the mesh.
std::vector<Box> pieces_of(const DTensor& tensor) {
  const std::optional<Coordinate> here = tensor.mesh().get_coordinate();
  if (!here) return {};
  return local_boxes(tensor.shape(), tensor.mesh().shape(), *here, tensor.placements());
}

}  // namespace

void init_(const DTensor& tensor, const RandomKey& key, const Distribution& distribution) {
  check_not_partial(tensor, "init_");
  init_(tensor.to_local(), pieces_of(tensor), tensor.shape(), key, distribution);
}

void init_(const ShardedFlatTensor& tensor, const RandomKey& key,
           const Distribution& distribution) {
  init_(tensor.sharded_data(), tensor.unsharded_flattened_offsets(), key, distribution);
}

DTensor dropout(const DTensor& x, const RandomKey& key, double p) {
  check_not_partial(x, "dropout");
  const at::Tensor local = dropout(x.to_local(), pieces_of(x), x.shape(), key, p);
  return DTensor::from_local(local, x.mesh(), x.placements(), {.shape = x.shape(), .check = false});
}

}  // namespace tessera

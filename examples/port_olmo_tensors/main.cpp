// OLMo-core's distributed.tensors in C++: a parameter sharded over all ranks, and the position of a
// rank's shard in its tensor. docs/dialects/olmo.md shows the Python original.
//
//   tessera run --nproc 4 -- port_olmo_tensors
#include <ATen/ATen.h>

#include <iostream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/dialect/olmo/tensors.h"

namespace {

using namespace tessera::olmo;
using tessera::Shard;

void run() {
  init_distributed("gloo");
  auto weight = ShardedFlatParameter::shard(at::arange(6, at::kFloat).view({2, 3}));
  const int64_t held = weight.sharded_numel();

  weight.unshard_();  // The whole, on every rank.
  weight.tensor().mul_(2);
  weight.reshard_(/*writeback=*/true);
  const at::Tensor whole = weight.gather();

  const auto mesh = init_device_mesh(*tessera::World::current(), {2, 2}, {"host", "gpu"});
  const auto [local_shape, global_offset] =
      compute_local_shape_and_global_offset({8, 4}, mesh, {Shard{0}, Shard{0}});

  std::cout << tessera::concat("rank ", get_rank(), ": holds ", held, " of ", whole.numel(),
                               " elements, sum ", whole.sum().item<double>(),
                               "; of (8, 4) it has (", tessera::join(local_shape, ", "), ") at (",
                               tessera::join(global_offset, ", "), ")\n")
            << std::flush;
  shutdown_distributed();
}

}  // namespace

int main() {
  try {
    run();
  } catch (const tessera::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

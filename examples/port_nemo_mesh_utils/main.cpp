// NeMo AutoModel's mesh_utils in C++: the mesh of its page's example, and a sum over one of its
// flattened axes. docs/dialects/nemo.md shows the Python original.
//
//   tessera run --nproc 8 -- port_nemo_mesh_utils
#include <ATen/ATen.h>

#include <iostream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/nemo/mesh_utils.h"

namespace {

using namespace tessera;
using namespace tessera::nemo;

void run() {
  World& world = World::make_current(World::connect({.backend = Backend::kGloo}));
  const FSDP2Config config{.sequence_parallel = true, .backend = "gloo"};
  const auto [device_mesh, moe_mesh] = create_device_mesh(
      config, ParallelismSizes().with_tp_size(2).with_pp_size(1).with_dp_replicate_size(2),
      /*world_size=*/8);

  const DeviceMesh& mesh = *device_mesh;
  const at::Tensor loss = at::full({}, static_cast<double>(world.rank().value));
  all_reduce(loss, mesh.get_group("dp_cp"), ReduceOp::kAvg).wait();

  std::cout << concat("rank ", world.rank(), ": shape ", join(mesh.shape(), " "), ", group ",
                      mesh["tp"].get_group(), ", experts ", moe_mesh ? "yes" : "no",
                      ", sharded over ", join(get_fsdp_dp_mesh(mesh).axis_names(), " "),
                      ", mean loss ", loss.item<double>(), "\n")
            << std::flush;
  World::current()->close();
  World::clear_current();
}

}  // namespace

int main() {
  try {
    run();
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

// OLMo-core's distributed.parallel in C++: a mesh of two pipelines, its sub-meshes, and one step of
// a pipeline. docs/dialects/olmo.md shows the Python original.
//
//   tessera run --nproc 4 -- port_olmo_parallel
#include <ATen/ATen.h>

#include <iostream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/olmo/parallel.h"
#include "tessera/dialect/olmo/utils.h"

namespace {

using namespace tessera;
using namespace tessera::olmo;

void run() {
  init_distributed("gloo");
  const DeviceMesh mesh =
      build_world_mesh({.dp = {{.name = DataParallelType::ddp}}, .pp = {{.degree = 2}}});
  const DeviceMesh pp_mesh = get_pp_mesh(mesh);
  const Group data = get_dp_process_group(mesh);

  // A stage per rank of the pipeline: y = x · weight.
  const int64_t stage = pp_mesh.get_local_rank().value;
  const at::Tensor weight = at::eye(3).mul_(2).requires_grad_();
  const auto forward = [&](const Tensors& inputs, const StagePass&) {
    return Tensors{inputs[0].matmul(weight)};
  };
  const auto loss_fn = [](const Tensors& outputs, const at::Tensor& target) {
    return at::mse_loss(outputs[0], target);
  };
  PipelineSchedule schedule({}, {{.index = stage, .forward = forward}}, pp_mesh,
                            PipelineScheduleType::single_1F1B, loss_fn, 2);

  const at::Tensor x = at::ones({4, 3}) * static_cast<double>(get_rank(data) + 1);
  const auto [outputs, losses] = schedule.step({x}, /*target=*/at::zeros({4, 3}));
  all_reduce(weight.grad(), data, ReduceOp::kAvg).wait();

  std::cout << concat("rank ", get_rank(), ": ", get_device_mesh_info(mesh), ", stage ", stage,
                      ", data parallel ", data, ", outputs ", outputs.size(), ", loss ",
                      losses.defined() ? losses.mean().item<double>() : 0, ", gradient ",
                      weight.grad().sum().item<double>(), "\n")
            << std::flush;
  shutdown_distributed();
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

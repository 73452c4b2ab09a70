#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/mesh/device_mesh.h"
#include "tessera/tensor/redistribute_plan.h"

namespace tessera::tensor::detail {

/// A local tensor and the steps of its redistribution.
struct RedistributeRun {
  at::Tensor local;
  DeviceMesh mesh;
  std::vector<int64_t> shape;  // The global shape.
  std::vector<RedistributeStep> steps;
};

/// **Collective.** Runs the steps of all tensors. Steps of the same kind, group and dtype are
/// batched into one operation. The given tensors do not change; those without steps are returned
/// as they are.
std::vector<at::Tensor> run_steps(std::span<const RedistributeRun> runs);

}  // namespace tessera::tensor::detail

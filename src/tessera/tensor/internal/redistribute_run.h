#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/mesh/device_mesh.h"
#include "tessera/tensor/redistribute_plan.h"

namespace tessera::tensor::detail {

/// A local tensor and the steps that it has to go.
struct RedistributeRun {
  at::Tensor local;
  DeviceMesh mesh;
  std::vector<int64_t> shape;  // Of the global tensor.
  std::vector<RedistributeStep> steps;
};

/// **Collective.** Takes all tensors through their steps. Those whose next step is of the same
/// kind, in the same group and of one dtype go together, as one operation. The given tensors are
/// not changed; those without steps come back as they are.
std::vector<at::Tensor> run_steps(std::span<const RedistributeRun> runs);

}  // namespace tessera::tensor::detail

#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tessera/mesh/device_mesh.h"
#include "tessera/tensor/placements.h"

namespace tessera::tensor::detail {

/// Source and target placements of a tensor.
struct Route {
  DeviceMesh mesh;
  std::vector<int64_t> shape;
  Placements from;
  Placements to;
};

/// **Collective** in the forward and in the backward pass. Redistributes all local tensors
/// together. Gradients are redistributed back, with gradient_placements().
std::vector<at::Tensor> redistribute_locals(std::span<const at::Tensor> locals,
                                            std::span<const Route> routes);

/// Returns the local tensor; its gradient is redistributed by this route. **Collective** in the
/// backward pass.
at::Tensor with_gradient_route(const at::Tensor& local, const Route& route);

}  // namespace tessera::tensor::detail

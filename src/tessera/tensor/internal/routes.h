#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tessera/mesh/device_mesh.h"
#include "tessera/tensor/placements.h"

namespace tessera::tensor::detail {

/// From where to where a tensor of this shape goes.
struct Route {
  DeviceMesh mesh;
  std::vector<int64_t> shape;
  Placements from;
  Placements to;
};

/// **Collective**, forwards and backwards. The local tensors at the ends of their routes, together.
/// Gradients go the same way back, as gradient_placements() says.
std::vector<at::Tensor> redistribute_locals(std::span<const at::Tensor> locals,
                                            std::span<const Route> routes);

/// The local tensor itself, whose gradient comes back by this route. **Collective** backwards.
at::Tensor with_gradient_route(const at::Tensor& local, const Route& route);

}  // namespace tessera::tensor::detail

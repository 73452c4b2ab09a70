#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// One parameter with its gradient and the state of SGD. All tensors are contiguous.
struct GpuSgdTensor {
  at::Tensor parameter;  // In 16 bits, it gets the rounded weight.
  at::Tensor gradient;   // In the dtype of the parameter.
  at::Tensor weight;     // The float32 copy of the parameter, or a float32 parameter itself.
  at::Tensor momentum;   // In float32; may be undefined if the momentum of all tensors is 0.
};

/// The rates of one step, the same for all tensors.
struct GpuSgdRates {
  double learning_rate;  // Of this step.
  double momentum;       // How much of the sum of gradients a step keeps; 0: there is no sum.
  double weight_decay;   // Times the weight: what is added to the gradient.
  bool nesterov;         // Whether the gradient counts beside the sum that it is a part of.
  /// A float32 scalar on the GPU: gradients count times this. If it is non-finite, nothing changes.
  at::Tensor gradient_factor;
};

/// Updates weights and momenta, and rounds weights into 16-bit parameters, in one pass. Needs
/// has_kernels(); parameters and gradients have one dtype.
void sgd_on_gpu(const std::vector<GpuSgdTensor>& tensors, const GpuSgdRates& rates);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// One parameter with its gradient and the state of AdamW. All tensors are contiguous.
struct GpuAdamWTensor {
  at::Tensor parameter;       // In 16 bits, it gets the rounded weight.
  at::Tensor gradient;        // In the dtype of the parameter.
  at::Tensor weight;          // The float32 copy of the parameter, or a float32 parameter itself.
  at::Tensor average;         // Of the gradients, in float32.
  at::Tensor square_average;  // Of the squared gradients, in float32.
  at::Tensor step;            // A float32 scalar: the number of steps, this one included.
};

/// The rates of one step, the same for all tensors.
struct GpuAdamWRates {
  double learning_rate;  // Of this step.
  double beta1;          // How much of `average` a step keeps.
  double beta2;          // How much of `square_average` a step keeps.
  double weight_decay;   // Times the learning rate: the share of each weight that is subtracted.
  double eps;            // Added to the denominator of the update.
  /// A float32 scalar on the GPU: gradients count times this. If it is non-finite, nothing changes.
  at::Tensor gradient_factor;
};

/// Updates weights and states, and rounds weights into 16-bit parameters, in one pass. Needs
/// has_kernels(); parameters and gradients have one dtype.
void adamw_on_gpu(const std::vector<GpuAdamWTensor>& tensors, const GpuAdamWRates& rates);

}  // namespace tessera

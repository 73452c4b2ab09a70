#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// One 16-bit parameter with its gradient, its float32 copy and the state of AdamW. All are
/// contiguous; `step` is a float32 scalar that counts this step already.
struct GpuAdamWTensor {
  at::Tensor parameter, gradient, weight, average, square_average, step;
};

/// The rates of one step, the same for all tensors.
struct GpuAdamWRates {
  double learning_rate, beta1, beta2, weight_decay, eps;
  double gradient_factor;  // Gradients count times this.
};

/// Updates copies and states, and rounds the copies into the parameters, in one pass. Needs
/// has_kernels(); parameters and gradients have one dtype.
void adamw_on_gpu(const std::vector<GpuAdamWTensor>& tensors, const GpuAdamWRates& rates);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// RMS norm: each vector of the last dimension, divided by its root mean square, times `weight`.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// A sum and its RMS norm.
struct NormedSum {
  at::Tensor sum;     // x + added, or x itself.
  at::Tensor normed;  // RMS norm of the sum, times the weight.
};

/// x + added, and its RMS norm. `added` may be undefined. For x that a residual connection passes
/// on beside its norm: on a GPU one pass adds and norms, and one adds both gradients.
NormedSum normed_sum(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight,
                     double eps);

}  // namespace tessera

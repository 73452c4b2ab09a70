#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Whether the kernels of this file take vectors of this size.
bool has_norm_kernels(const at::Tensor& x);

/// A sum and its norm, and what the backward pass needs.
struct GpuNorm {
  at::Tensor sum;     // x + added, or x itself.
  at::Tensor normed;  // Its RMS norm times the weight.
  at::Tensor scales;  // 1 / root(mean square) of each vector, in float32.
};

/// The RMS norm of vectors of the last dimension, with the addition before it. `added` may be
/// undefined. Tensors are contiguous and of one dtype. Needs has_norm_kernels().
GpuNorm add_norm_on_gpu(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight,
                        double eps);

/// The gradients of a norm's inputs.
struct GpuNormGradients {
  at::Tensor sum;     // Of the sum, and so of x and added.
  at::Tensor weight;  // In float32.
};

/// From the gradients of the norm and, unless undefined, of the sum.
GpuNormGradients add_norm_backward_on_gpu(const at::Tensor& of_normed, const at::Tensor& of_sum,
                                          const at::Tensor& sum, const at::Tensor& weight,
                                          const at::Tensor& scales);

}  // namespace tessera

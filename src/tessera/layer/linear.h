#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// x·weightᵀ + bias. `weight` is [outputs, inputs]; `bias` may be undefined. With Pass::deferred
/// the backward pass puts the gradients of weight and bias there; both must be leaves. Pass::kept
/// keeps the product.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  const Pass& pass = {});

/// The gradient of a linear layer's weight: gradientᵀ·x, summed over all positions.
at::Tensor linear_weight_gradient(const at::Tensor& x, const at::Tensor& gradient);
/// That of its bias.
at::Tensor linear_bias_gradient(const at::Tensor& gradient);

}  // namespace tessera

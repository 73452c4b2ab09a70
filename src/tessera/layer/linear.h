#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/layer/weight_gradients.h"

namespace tessera TSR_API {

/// x·weightᵀ + bias; `weight` is [outputs, inputs], an undefined bias is none. With `deferred` the
/// gradients of weight and bias, which must be leaves, are left there by the backward pass.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  const WeightGradients* deferred = nullptr);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/layer/weight_gradients.h"

namespace tessera TSR_API {

/// x·weightᵀ + bias. `weight` is [outputs, inputs]; `bias` may be undefined. With `deferred` the
/// backward pass puts the gradients of weight and bias there; both must be leaves.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  const WeightGradients* deferred = nullptr);

}  // namespace tessera

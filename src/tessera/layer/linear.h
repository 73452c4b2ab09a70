#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// The rows of a linear layer that this rank has. Ranks may hold different numbers of rows, or
/// none.
struct LinearWeights {
  at::Tensor weight;     // [outputs, inputs]
  at::Tensor bias = {};  // [outputs]; undefined: none.
};

/// x·weightᵀ + bias. `weight` is [outputs, inputs]; `bias` may be undefined. With Pass::deferred
/// the backward pass puts the gradients of weight and bias there; both must be leaves. Pass::kept
/// keeps the product. With Pass::fp8 all three products are in float8, where takes_fp8().
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  const Pass& pass = {});

/// Linear layers of one input, e.g. query, key and value: one product on a GPU, if the weights lie
/// behind each other in memory (see place_together()) and have no bias. Otherwise as many as
/// layers.
std::vector<at::Tensor> linear(const at::Tensor& x, std::span<const LinearWeights> layers,
                               const Pass& pass);

/// The value of linear() alone, without autograd, for layers with a backward pass of their own.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias = std::nullopt,
                          Fp8 fp8 = Fp8::kNone);

/// The gradient of a linear layer's input: gradient·weight.
at::Tensor linear_input_gradient(const at::Tensor& gradient, const at::Tensor& weight,
                                 Fp8 fp8 = Fp8::kNone);
/// The gradient of a linear layer's weight: gradientᵀ·x, summed over all positions.
at::Tensor linear_weight_gradient(const at::Tensor& x, const at::Tensor& gradient,
                                  Fp8 fp8 = Fp8::kNone);
/// The same for autograd to add; undefined if it `adds` (Pass::adds_gradients) and the product has
/// added to the weight's gradient itself.
at::Tensor weight_gradient_to_add(const at::Tensor& weight, const at::Tensor& x,
                                  const at::Tensor& gradient, Fp8 fp8, bool adds);
/// Accumulates it like backward() does.
void accumulate_weight_gradient(const at::Tensor& weight, const at::Tensor& x,
                                const at::Tensor& gradient, Fp8 fp8 = Fp8::kNone);
/// That of its bias.
at::Tensor linear_bias_gradient(const at::Tensor& gradient);

}  // namespace tessera

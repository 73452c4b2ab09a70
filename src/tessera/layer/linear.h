#pragma once

#include <ATen/core/Tensor.h>

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

/// Linear layers of one input, e.g. query, key and value: one product if they have a
/// joined_layer(). Otherwise as many as layers.
std::vector<at::Tensor> linear(const at::Tensor& x, std::span<const LinearWeights> layers,
                               const Pass& pass);

/// The value of linear() alone, without autograd, for layers with a backward pass of their own.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias = {}, Fp8 fp8 = Fp8::kNone);

/// The gradient of a linear layer's input: gradient·weight.
at::Tensor linear_input_gradient(const at::Tensor& gradient, const at::Tensor& weight,
                                 Fp8 fp8 = Fp8::kNone);
/// The gradient of a linear layer's weight: gradientᵀ·x, summed over all positions.
at::Tensor linear_weight_gradient(const at::Tensor& x, const at::Tensor& gradient,
                                  Fp8 fp8 = Fp8::kNone);
/// Those of one weight, or of several with one input, for autograd to add; `gradient` is that of
/// the result, or of the joined ones. Undefined if it `adds` (Pass::adds_gradients) and the product
/// has added to the gradients of the weights itself.
std::vector<at::Tensor> weight_gradients_to_add(at::TensorList weights, const at::Tensor& x,
                                                const at::Tensor& gradient, Fp8 fp8, bool adds);
/// Those of the biases of layers with these weights, likewise.
std::vector<at::Tensor> bias_gradients(at::TensorList weights, const at::Tensor& gradient);
/// Accumulates the gradients of one layer, or of several with one input, like backward() does:
/// `gradient` for the weights, `for_biases` for the biases.
void accumulate_gradients(std::span<const LinearWeights> layers, const at::Tensor& x,
                          const at::Tensor& gradient, const at::Tensor& for_biases, Fp8 fp8);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/linear.h"

namespace torch::autograd {
struct AutogradContext;
}

/// Linear layers of one input that are computed as one, e.g. query, key and value.
namespace tessera TSR_API {

/// The layers as one whose outputs are those of all, without a copy: their weights must lie behind
/// each other in memory (see place_together()), and so must their biases if they have some. None
/// otherwise, for a single layer, and where x has no kernels.
std::optional<LinearWeights> joined_layer(const at::Tensor& x,
                                          std::span<const LinearWeights> layers);

/// The results of the layers, as parts of that of the joined layer.
std::vector<at::Tensor> split_result(const at::Tensor& joined,
                                     std::span<const LinearWeights> layers);

/// The gradient of the joined layer's result, from those of the layers' results: without a copy if
/// they lie beside each other in memory.
at::Tensor joined_gradient(const std::vector<at::Tensor>& gradients);

/// Where the parameters of some layers are in autograd's list of inputs.
struct ParameterPlaces {
  size_t weights;     // The first one.
  size_t biases;      // The first one.
  size_t num_biases;  // As many as layers, or 0.
};
/// What the gradients of the parameters of one layer, or of joined ones, are made of.
struct GradientOperands {
  at::Tensor x;                  // The input.
  at::Tensor gradient;           // For the weights.
  at::Tensor gradient_for_bias;  // Of the positions that count for this rank's biases.
};
/// In a backward pass: puts the gradients that autograd wants and that are not there yet into
/// `made`. Weights have none if the pass `adds` and the product has added to their gradients
/// itself.
void make_gradients(const torch::autograd::AutogradContext& context, at::TensorList weights,
                    const ParameterPlaces& places, const GradientOperands& of, Fp8 fp8, bool adds,
                    std::vector<at::Tensor>& made);

/// All weights, then those biases that are defined: an order for autograd's list of inputs.
std::vector<at::Tensor> parameters_of(std::span<const LinearWeights> layers);

}  // namespace tessera

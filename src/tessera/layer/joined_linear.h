#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/linear.h"

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

/// All weights, then those biases that are defined: an order for autograd's list of inputs.
std::vector<at::Tensor> parameters_of(std::span<const LinearWeights> layers);

}  // namespace tessera

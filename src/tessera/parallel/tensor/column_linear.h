#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// **Collective.** Column-parallel linear layers of one input x of [batch, positions, inputs]: each
/// rank computes its own outputs, for all positions. The layers share one gather of x and one sum
/// of its gradient, e.g. query, key and value.
///
/// With TensorParallel::sequence, x holds this rank's positions: the forward pass all-gathers them,
/// and the backward pass all-gathers them again, instead of keeping them, and reduce-scatters the
/// gradient. Otherwise x is the same on all ranks, and the backward pass all-reduces the gradient.
/// The weight gradients are computed while the gradient of x is sent.
///
/// With TensorParallel::async, the product of a rank's positions starts as soon as they arrive. The
/// result has the same bits, unless the matrix library rounds a product of fewer rows differently.
///
/// Without tensor parallelism the same as linear(), to the last bit. Pass::deferred and Pass::kept
/// work as in linear(); a deferred weight gradient holds the gathered x.
std::vector<at::Tensor> column_linear(const at::Tensor& x, std::span<const LinearWeights> layers,
                                      const Pass& pass);
/// One layer.
at::Tensor column_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                         const Pass& pass = {});

}  // namespace tessera

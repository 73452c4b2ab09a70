#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// **Collective.** Row-parallel linear layer: x·weightᵀ, summed over the ranks, plus bias. x of
/// [batch, positions, inputs] and `weight` of [outputs, inputs] hold this rank's inputs. `bias` is
/// whole on every rank, and is added once.
///
/// With TensorParallel::sequence, the sum is reduce-scattered: the result holds this rank's
/// positions. The backward pass all-gathers the gradient. The gradient of `bias` then only counts
/// this rank's positions: the caller sums it over the ranks. Otherwise the sum is all-reduced, and
/// every gradient is complete. ConfigError if the group's size does not divide the positions.
///
/// With TensorParallel::async, each rank sends the product of a rank's positions as soon as it is
/// computed, its own last; the backward pass multiplies the gradients as they arrive. Partial sums
/// are added in rank order, like those of Gloo, so the result has the same bits, unless the matrix
/// library rounds a product of fewer rows differently. NCCL adds in its own order, and the gradient
/// of `weight` is added up piece by piece.
///
/// Without tensor parallelism the same as linear(), to the last bit. Pass::deferred and Pass::kept
/// work as in linear(): what is kept is the sum.
at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                      const Pass& pass = {});

}  // namespace tessera

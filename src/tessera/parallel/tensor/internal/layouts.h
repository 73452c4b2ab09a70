#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/comm/group.h"
#include "tessera/topology/placement.h"

/// Layouts of plain tensors. Every rank has the whole gradient of a replicated tensor; the gradient
/// of a sharded one is sharded alike.
namespace tessera::tensor::detail {

/// One dimension of a tensor, split over a group by the rule of chunk().
struct SplitDim {
  Group group;
  int64_t dim = 0;
  int64_t size = 0;  // Of the whole tensor.
};

/// **Collective.** The whole tensor.
at::Tensor whole_of(const at::Tensor& piece, const SplitDim& split);
/// This rank's piece of a whole tensor. Local.
at::Tensor piece_of(const at::Tensor& whole, const SplitDim& split);

/// All **collective**, in the forward and in the backward pass. `width` is the size of the last
/// dimension of the whole tensor: that one may be split unevenly. ConfigError if the group's size
/// does not divide another one.

/// x in another layout.
at::Tensor converted(const at::Tensor& x, const Placement& from, const Placement& to,
                     const Group& group, int64_t width);
/// x, replicated, for work that the ranks split: each adds its part of the gradient.
at::Tensor entered(const at::Tensor& x, const Placement& from, const Group& group, int64_t width);
/// The sum of the ranks' x.
at::Tensor summed(const at::Tensor& x, const Placement& to, const Group& group);
/// A parameter that each rank uses for a part of the work; the backward pass sums its gradient.
at::Tensor with_summed_gradient(const at::Tensor& parameter, const Group& group);

}  // namespace tessera::tensor::detail

#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

/// How models change between work that the ranks split (tensor-parallel) and work that each rank
/// does for its own positions. All are **collective** in the forward and in the backward pass, act
/// on dimension 1, the positions, and return x without tensor parallelism.
///
/// | | sequence: forward, backward | otherwise: forward, backward |
/// |---|---|---|
/// | enter_parallel | all-gather, reduce-scatter | identity, all-reduce |
/// | leave_parallel | reduce-scatter, all-gather | all-reduce, identity |
/// | gather_positions | all-gather, cut | identity, identity |
/// | cut_positions | cut, all-gather | identity, identity |
namespace tessera TSR_API {

/// x for work that the ranks split: each rank adds its part of the gradient. column_linear() does
/// this itself.
at::Tensor enter_parallel(const at::Tensor& x, const Pass& pass);

/// The sum of the ranks' x. Pass::kept keeps it. row_linear() does this itself. ConfigError if the
/// group's size does not divide the positions.
at::Tensor leave_parallel(const at::Tensor& x, const Pass& pass);

/// x with all positions, for work that every rank repeats: each rank has the whole gradient.
/// enter_parallel() would scale it by the number of ranks.
at::Tensor gather_positions(const at::Tensor& x, const Pass& pass);

/// This rank's positions of an x that is the same on all ranks. ConfigError if the group's size
/// does not divide the positions.
at::Tensor cut_positions(const at::Tensor& x, const Pass& pass);

}  // namespace tessera

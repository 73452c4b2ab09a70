#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/operation.h"

/// Converts tensors and reductions to those that engines support.
namespace tessera::comm::detail {

/// The engine's reduction; ConfigError if the dtype does not support it.
c10d::ReduceOp wire_op(ReduceOp op, const at::Tensor& tensor, const Group& group);
/// Device and dtype in which the tensor is sent.
at::TensorOptions wire_options(const at::Tensor& tensor, const Group& group);
/// The tensor as engines need it: dense and detached. Shares memory if possible.
at::Tensor on_wire(const at::Tensor& tensor, const Group& group);
/// The same in a dtype that engines can reduce: bool as bytes, int16 as int32.
at::Tensor reducible(const at::Tensor& tensor, const Group& group);
/// Gloo has no average: divide the sum by this.
int64_t divisor_of(ReduceOp op, const Group& group);

int64_t normal_dim(int64_t dim, const at::Tensor& tensor, const char* name);
/// One equal piece per rank; ConfigError if `total` is not divisible.
Sizes equal_sizes(int64_t total, const Group& group, const char* name);
int64_t numel_of(const Sizes& shape);

/// Gathers every rank's `mine` into `all`.
void start_all_gather(PendingOperation& operation, const at::Tensor& all, const at::Tensor& mine);
/// Reduces all ranks' `input`, one equal piece per rank; this rank's piece goes to `output`. Call
/// the returned function when the operation has ended.
std::function<void()> start_reduce_scatter(PendingOperation& operation, at::Tensor output,
                                           at::Tensor input, const c10d::ReduceOp& op);

}  // namespace tessera::comm::detail

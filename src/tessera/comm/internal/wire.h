#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/operation.h"

/// From what users ask for to what engines can send.
namespace tessera::comm::detail {

/// The engine's name for the reduction; refuses an average of integers.
c10d::ReduceOp wire_op(ReduceOp op, const at::Tensor& tensor, const Group& group);
/// Where and as what the tensor travels.
at::TensorOptions wire_options(const at::Tensor& tensor, const Group& group);
/// The tensor as engines read it: dense, without its history. The same memory where it can be.
at::Tensor on_wire(const at::Tensor& tensor, const Group& group);
/// The same of a dtype that engines add: bool travels as bytes, short integers as longer ones.
at::Tensor reducible(const at::Tensor& tensor, const Group& group);
/// Gloo has no average: the sum is divided when it is there.
int64_t divisor_of(ReduceOp op, const Group& group);

int64_t normal_dim(int64_t dim, const at::Tensor& tensor, const char* name);
/// One share per rank; refuses what cannot be cut into equal pieces.
Sizes equal_sizes(int64_t total, const Group& group, const char* name);
int64_t numel_of(const Sizes& shape);

/// Every rank's `mine`, one after the other, into `all`.
void start_all_gather(PendingOperation& operation, const at::Tensor& all, const at::Tensor& mine);
/// Reduces all ranks' `input`, one equal piece per rank, of which this rank's comes into `output`.
/// What is returned is to be called when the operation has ended.
std::function<void()> start_reduce_scatter(PendingOperation& operation, at::Tensor output,
                                           at::Tensor input, const c10d::ReduceOp& op);

}  // namespace tessera::comm::detail

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/tensor/sharding_spec.h"

namespace tessera::tensor::detail {

/// Concatenates runs of a flat tensor; a view if there is only one.
at::Tensor flat_chunk(const at::Tensor& flat, const FlatSpans& spans);
/// The chunks of all ranks, padded with zeros to the longest.
std::vector<at::Tensor> padded_chunks(const at::Tensor& flat, const ShardingSpec& spec);
/// The inverse: a new tensor of the unsharded shape, or a view of `rows` if no copy is needed.
/// `rows` has one row per rank, as long as the longest shard.
at::Tensor join_chunks(const at::Tensor& rows, const ShardingSpec& spec);

}  // namespace tessera::tensor::detail

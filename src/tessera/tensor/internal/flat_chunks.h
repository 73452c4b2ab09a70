#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/tensor/sharding_spec.h"

namespace tessera::tensor::detail {

/// Some runs of a flat tensor, one after the other; a view where they are one.
at::Tensor flat_chunk(const at::Tensor& flat, const FlatSpans& spans);
/// The chunks of all ranks, each as long as the longest, filled up with zeros.
std::vector<at::Tensor> padded_chunks(const at::Tensor& flat, const ShardingSpec& spec);
/// The opposite: a new tensor of the whole shape, or where the rows are the whole already, these.
/// `rows` has one row a rank, as long as the longest shard.
at::Tensor join_chunks(const at::Tensor& rows, const ShardingSpec& spec);

}  // namespace tessera::tensor::detail

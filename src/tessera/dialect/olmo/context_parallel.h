#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/olmo/context_parallel.h"

/// OLMo-core's load balancers of context parallelism on tensors.
namespace tessera {
namespace olmo TSR_API {

/// This rank's part of each input along its sequence dimension. Local.
///
/// Padding gets the input's pad value; without pad values it is refused. ConfigError for all that
/// RingAttentionLoadBalancer refuses, lists of different lengths, and inputs of different lengths.
std::vector<at::Tensor> batch_shard(
    const RingAttentionLoadBalancer& load_balancer, const std::vector<at::Tensor>& inputs,
    const std::vector<int64_t>& seq_dims,
    const std::optional<std::vector<double>>& pad_values = std::nullopt,
    std::optional<int64_t> length_multiple = std::nullopt);

/// The inputs, and what attention needs beside them.
struct ShardedBatch {
  std::vector<at::Tensor> inputs;  // This rank's part of each.
  DocumentShard documents;         // This rank's positions and document lengths.
};
/// The same for packed documents with these cumulative lengths.
ShardedBatch batch_shard_by_document(
    const RingAttentionLoadBalancer& load_balancer, const std::vector<at::Tensor>& inputs,
    const std::vector<int64_t>& seq_dims, const std::vector<int64_t>& cu_doc_lens,
    const std::optional<std::vector<double>>& pad_values = std::nullopt,
    std::optional<int64_t> length_multiple = std::nullopt);

}  // namespace olmo
}  // namespace tessera

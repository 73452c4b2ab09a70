#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/plan.h"

namespace tessera TSR_API {

/// Chooses the ranks of a pipeline that hold embeddings, given all of them. Called once per
/// pipeline; must return the same on every rank.
using EmbeddingRanks = std::function<std::vector<int64_t>(const std::vector<int64_t>&)>;

/// The arguments of Megatron-Core's initialize_model_parallel, with its names, order and defaults.
/// An empty list or function is its None.
struct MegatronConfig {
  int64_t tensor_model_parallel_size = 1;    // Ranks that shard each layer.
  int64_t pipeline_model_parallel_size = 1;  // Ranks per pipeline.
  /// Virtual stages per pipeline rank; default: no interleaving.
  std::optional<int64_t> virtual_pipeline_model_parallel_size = std::nullopt;
  std::optional<std::string> pipeline_model_parallel_comm_backend = std::nullopt;  // nccl or ucc.
  bool use_sharp = false;             // The switches reduce gradients (SHARP).
  int64_t context_parallel_size = 1;  // Ranks that split a sequence.
  /// Ranks per level, inner to outer; their product is cp. Empty: no levels.
  std::vector<int64_t> hierarchical_context_parallel_sizes = {};
  int64_t expert_model_parallel_size = 1;           // Ranks that split the experts of a layer.
  int64_t num_distributed_optimizer_instances = 1;  // Replicas of the optimizer state.
  std::optional<int64_t> expert_tensor_parallel_size = std::nullopt;  // Default: the decoder's.
  /// File for read_nccl_config(); default: NCCL chooses all options.
  std::optional<std::string> nccl_communicator_config_path = std::nullopt;
  int64_t distributed_timeout_minutes = 30;      // Of operations of the groups; at least 1.
  std::string order = "tp-cp-ep-dp-pp";          // Axes, fastest first.
  EmbeddingRanks get_embedding_ranks = nullptr;  // Default: the first and the last stage.
  EmbeddingRanks get_position_embedding_ranks = nullptr;      // Default: the first stage.
  bool create_gloo_process_groups = true;                     // Gloo twins of data-parallel groups.
  std::vector<std::string> high_priority_stream_groups = {};  // Names of nccl_sections().
  std::optional<std::string> sharp_enabled_group = std::nullopt;  // dp (default) or dp_replica.
  bool hybrid_context_parallel = false;  // Adds chunks of dp·cp, see hybrid_specs().
  bool create_all_gather_group = false;  // Adds a twin of dp·cp for all-gathers.
};

/// Every group that Megatron-Core creates in a world of this many ranks, in its order.
///
/// The layouts are "decoder" (tp, cp, dp, pp; ep is 1) and "expert" (the experts' tp, ep, dp and
/// the same pp; cp is 1). ConfigError for all that Megatron refuses, early or late, or turns into
/// wrong groups.
Plan megatron_plan(int64_t world, const MegatronConfig& config);

}  // namespace tessera

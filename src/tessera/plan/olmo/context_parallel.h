#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/context_parallel.h"
#include "tessera/plan/olmo/config.h"
#include "tessera/topology/box.h"

/// OLMo-core's load balancers of context parallelism: which positions a rank gets, and the lengths
/// that attention needs. Functions on tensors are in tessera/dialect/olmo/context_parallel.h.
namespace tessera {
namespace olmo TSR_API {

/// How a batch is divided over the ranks of context parallelism.
struct ShardOptions {
  bool pad = false;  // Whether padding may be added. OLMo-core: whether pad_values were given.
  /// Default: the least that the load balancer needs. See docs/dialects/olmo.md for its meaning,
  /// which differs between the load balancers.
  std::optional<int64_t> length_multiple = std::nullopt;
};

/// What batch_shard_by_document() gives attention in addition to the positions. zig_zag and ulysses
/// set cu_doc_lens and max_doc_len, llama3 sets the others.
struct DocumentShard {
  std::vector<int64_t> positions = {};  // In local order; kPadding for padding.
  /// Cumulative lengths {0, …} of this rank's parts (zig_zag), or of whole documents (ulysses).
  std::vector<int64_t> cu_doc_lens = {};
  int64_t max_doc_len = 0;                  // The longest of cu_doc_lens.
  std::vector<int64_t> cu_doc_lens_q = {};  // Of this rank's queries.
  std::vector<int64_t> cu_doc_lens_k = {};  // Of the keys in local_k_slice.
  int64_t max_doc_len_q = 0;                // The longest of cu_doc_lens_q.
  int64_t max_doc_len_k = 0;                // The longest of cu_doc_lens_k.
  Span local_k_slice = {};  // The part of the gathered keys that this rank attends to.
};

/// One rank's view of a load balancer.
struct RingAttentionLoadBalancer {
  /// Decides which positions a rank gets.
  RingAttentionLoadBalancerType type = RingAttentionLoadBalancerType::zig_zag;
  int64_t cp_rank = 0;        // Of this rank in its context-parallel group.
  int64_t cp_world_size = 1;  // Ranks of the context-parallel group.

  /// This rank's positions of a sequence, kPadding for padding. ConfigError if it would have to be
  /// padded but options.pad is false, and for llama3, which takes documents only.
  std::vector<int64_t> batch_shard(int64_t seq_len, const ShardOptions& options = {}) const;
  /// The same for packed documents given by their cumulative lengths {0, …, total}.
  DocumentShard batch_shard_by_document(const std::vector<int64_t>& cu_doc_lens,
                                        const ShardOptions& options = {}) const;
};

/// The neutral options. ConfigError unless exactly one of `ring` and `uly` is set.
ContextParallelOptions context_parallel_options(const TransformerContextParallelConfig& config);

}  // namespace olmo
}  // namespace tessera

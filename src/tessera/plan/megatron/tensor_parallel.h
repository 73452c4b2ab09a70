#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

/// The arithmetic of Megatron-Core's `tensor_parallel`: which part of a vocabulary or a weight each
/// tensor-parallel rank holds. Functions on tensors are in
/// tessera/dialect/megatron/tensor_parallel.h.
namespace tessera {
namespace megatron TSR_API {

/// numerator / denominator; ConfigError if there is a remainder.
int64_t divide(int64_t numerator, int64_t denominator);

/// The ids [begin, end) of a vocabulary on a tensor-parallel rank. ConfigError for sizes below 1
/// and ranks outside 0 to world_size - 1.
struct VocabUtility {
  /// From the number of ids per rank.
  static Span vocab_range_from_per_partition_vocab_size(int64_t per_partition_vocab_size,
                                                        int64_t rank, int64_t world_size);
  /// ConfigError if world_size does not divide the vocabulary, which must be padded already.
  static Span vocab_range_from_global_vocab_size(int64_t global_vocab_size, int64_t rank,
                                                 int64_t world_size);
};

/// The vocabulary rounded up to a multiple of make_vocab_size_divisible_by ·
/// tensor_model_parallel_size.
int64_t calculate_padded_vocab_size(int64_t vocab_size, int64_t make_vocab_size_divisible_by,
                                    int64_t tensor_model_parallel_size);

/// A layer of Megatron-Core that is cut over the tensor-parallel ranks.
struct ParallelLayer {
  /// Megatron-Core's class, and what it cuts.
  enum class Kind {
    kColumn,     // ColumnParallelLinear: each rank has rows of the weight.
    kRow,        // RowParallelLinear: columns.
    kEmbedding,  // VocabParallelEmbedding: rows.
  };

  Kind kind = Kind::kColumn;       // Decides which dimension is cut.
  std::vector<int64_t> weight;     // [outputs, inputs]; of an embedding [vocabulary, width].
  int64_t stride = 1;              // Equal blocks cut one by one, e.g. 2 for gate and up.
  bool bias = false;               // [outputs]; an embedding has none.
  bool sequence_parallel = false;  // Whether activations are split along the sequence.
};

/// One rank's part of a parameter, with the attributes that Megatron-Core sets on it.
struct ParameterShard {
  std::vector<int64_t> shape = {};     // Of this part.
  std::vector<Runs> indices = {};      // Of each dimension of the whole parameter.
  bool tensor_model_parallel = false;  // Whether it is cut over the ranks.
  int64_t partition_dim = -1;          // -1 if it is not cut.
  int64_t partition_stride = 1;        // The layer's stride; 1 if it is not cut.
  bool sequence_parallel = false;      // Its gradient must be summed over the ranks.
};

/// ConfigError if a size is below 1 or the rank's part cannot be cut into `stride` equal pieces.
ParameterShard weight_shard(const ParallelLayer& layer, int64_t rank, int64_t world_size);
/// Empty without a bias. A row-parallel layer adds its whole bias after the reduction.
std::optional<ParameterShard> bias_shard(const ParallelLayer& layer, int64_t rank,
                                         int64_t world_size);

/// The layer of SelfAttention's fused QKV weight. Its rows are, for each key-value head: its query
/// heads, its key, its value. With fewer key-value heads than ranks, a rank's rows may end inside a
/// head; Megatron-Core then gathers the outputs, and each rank takes the heads of split_heads().
ParallelLayer fused_qkv(int64_t heads, int64_t kv_heads, int64_t head_size, int64_t hidden);

}  // namespace megatron
}  // namespace tessera

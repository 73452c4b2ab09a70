#include "tessera/plan/megatron/tensor_parallel.h"

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/plan/internal/sizes.h"

namespace tessera {
using namespace plan::detail;
namespace megatron {
namespace {

void check_rank(int64_t rank, int64_t world_size) {
  check_positive("the tensor-parallel group", world_size);
  TSR_CHECK(0 <= rank && rank < world_size, "tensor-parallel rank ", rank, " is outside 0 to ",
            world_size - 1);
}

size_t cut_dim(const ParallelLayer& layer) {
  return layer.kind == ParallelLayer::Kind::kRow ? 1 : 0;
}

// The indices of a dimension that this rank has.
Runs cut_evenly(int64_t size, int64_t stride, int64_t rank, int64_t world_size) {
  divide(divide(size, world_size), stride);
  return cut_runs({{0, size}}, stride, world_size, rank);
}

void check_layer(const ParallelLayer& layer, int64_t rank, int64_t world_size) {
  check_rank(rank, world_size);
  check_positive("the stride", layer.stride);
  TSR_CHECK(layer.weight.size() == 2, "a weight has 2 dimensions, not ", layer.weight.size());
  for (const int64_t size : layer.weight) check_positive("a weight's dimension", size);
}

ParameterShard whole(std::vector<int64_t> shape) {
  ParameterShard shard{.shape = std::move(shape)};
  for (const int64_t size : shard.shape) shard.indices.push_back({{0, size}});
  return shard;
}

void cut(ParameterShard& shard, size_t dim, const ParallelLayer& layer, int64_t rank,
         int64_t world_size) {
  shard.indices[dim] = cut_evenly(shard.shape[dim], layer.stride, rank, world_size);
  shard.shape[dim] = total_size(shard.indices[dim]);
  shard.tensor_model_parallel = true;
  shard.partition_dim = static_cast<int64_t>(dim);
  shard.partition_stride = layer.stride;
}

}  // namespace

int64_t divide(int64_t numerator, int64_t denominator) {
  TSR_CHECK(denominator != 0, numerator, " cannot be divided by 0");
  if (denominator == -1) return checked_multiply(numerator, -1, "a quotient");  // No overflow in %.
  TSR_CHECK(numerator % denominator == 0, numerator, " is not divisible by ", denominator);
  return numerator / denominator;
}

Span VocabUtility::vocab_range_from_per_partition_vocab_size(int64_t per_partition_vocab_size,
                                                             int64_t rank, int64_t world_size) {
  check_positive("the vocabulary of a rank", per_partition_vocab_size);
  check_rank(rank, world_size);
  checked_multiply(per_partition_vocab_size, world_size, "the size of the vocabulary");
  return {rank * per_partition_vocab_size, (rank + 1) * per_partition_vocab_size};
}

Span VocabUtility::vocab_range_from_global_vocab_size(int64_t global_vocab_size, int64_t rank,
                                                      int64_t world_size) {
  check_rank(rank, world_size);
  return vocab_range_from_per_partition_vocab_size(divide(global_vocab_size, world_size), rank,
                                                   world_size);
}

int64_t calculate_padded_vocab_size(int64_t vocab_size, int64_t make_vocab_size_divisible_by,
                                    int64_t tensor_model_parallel_size) {
  check_positive("the vocabulary", vocab_size);
  check_positive("make_vocab_size_divisible_by", make_vocab_size_divisible_by);
  check_positive("the tensor-parallel group", tensor_model_parallel_size);
  const int64_t multiple = checked_multiply(make_vocab_size_divisible_by,
                                            tensor_model_parallel_size, "the multiple to pad to");
  const int64_t count = vocab_size / multiple + (vocab_size % multiple == 0 ? 0 : 1);
  return checked_multiply(count, multiple, "the padded vocabulary");
}

ParameterShard weight_shard(const ParallelLayer& layer, int64_t rank, int64_t world_size) {
  check_layer(layer, rank, world_size);
  ParameterShard shard = whole(layer.weight);
  cut(shard, cut_dim(layer), layer, rank, world_size);
  return shard;
}

std::optional<ParameterShard> bias_shard(const ParallelLayer& layer, int64_t rank,
                                         int64_t world_size) {
  check_layer(layer, rank, world_size);
  if (!layer.bias || layer.kind == ParallelLayer::Kind::kEmbedding) return std::nullopt;
  ParameterShard shard = whole({layer.weight[0]});
  if (layer.kind == ParallelLayer::Kind::kColumn) {
    cut(shard, 0, layer, rank, world_size);
  } else {
    shard.sequence_parallel = layer.sequence_parallel && world_size > 1;
  }
  return shard;
}

ParallelLayer fused_qkv(int64_t heads, int64_t kv_heads, int64_t head_size, int64_t hidden) {
  check_positive("heads", heads);
  check_positive("kv_heads", kv_heads);
  const int64_t all = checked_add(heads, checked_multiply(2, kv_heads, "the heads"), "the heads");
  return {.weight = {checked_multiply(all, head_size, "the rows of a weight"), hidden}};
}

}  // namespace megatron
}  // namespace tessera

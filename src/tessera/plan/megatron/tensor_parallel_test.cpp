#include "tessera/plan/megatron/tensor_parallel.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::megatron {
namespace {

using Kind = ParallelLayer::Kind;

TEST(TensorParallel, DividesWithoutRemainder) {
  EXPECT_EQ(divide(12, 3), 4);
  EXPECT_EQ(divide(-6, 3), -2);
  EXPECT_EQ(divide(0, 4), 0);
  EXPECT_EQ(divide(5, -1), -5);
  EXPECT_THROW(divide(12, 5), ConfigError);
  EXPECT_THROW(divide(7, 0), ConfigError);
  EXPECT_THROW(divide(std::numeric_limits<int64_t>::min(), -1), ConfigError);
}

TEST(TensorParallel, RangesOfAVocabulary) {
  EXPECT_EQ(VocabUtility::vocab_range_from_global_vocab_size(128, 3, 4), (Span{96, 128}));
  EXPECT_EQ(VocabUtility::vocab_range_from_per_partition_vocab_size(32, 1, 4), (Span{32, 64}));
  EXPECT_THROW(VocabUtility::vocab_range_from_global_vocab_size(50257, 0, 8), ConfigError);
  EXPECT_THROW(VocabUtility::vocab_range_from_global_vocab_size(0, 0, 8), ConfigError);
  EXPECT_THROW(VocabUtility::vocab_range_from_per_partition_vocab_size(32, 4, 4), ConfigError);
  EXPECT_THROW(VocabUtility::vocab_range_from_per_partition_vocab_size(32, -1, 4), ConfigError);
  EXPECT_THROW(VocabUtility::vocab_range_from_per_partition_vocab_size(int64_t{1} << 62, 3, 4),
               ConfigError);
}

TEST(TensorParallel, PaddedVocabularies) {
  EXPECT_EQ(calculate_padded_vocab_size(50257, 128, 8), 51200);
  EXPECT_EQ(calculate_padded_vocab_size(1024, 128, 8), 1024);
  EXPECT_THROW(calculate_padded_vocab_size(0, 128, 1), ConfigError);
  EXPECT_THROW(calculate_padded_vocab_size(100, -1, 2), ConfigError);
  EXPECT_THROW(calculate_padded_vocab_size(100, 128, 0), ConfigError);
  EXPECT_THROW(calculate_padded_vocab_size(std::numeric_limits<int64_t>::max(), 128, 2),
               ConfigError);
}

RC_GTEST_PROP(TensorParallelProperty, PaddingIsTheLeastThatDivides, ()) {
  const auto vocab = *rc::gen::inRange<int64_t>(1, 100'000);
  const auto multiple = *rc::gen::inRange<int64_t>(1, 200);
  const auto tp = *rc::gen::inRange<int64_t>(1, 9);
  const int64_t padded = calculate_padded_vocab_size(vocab, multiple, tp);
  RC_ASSERT(vocab <= padded && padded < vocab + multiple * tp);
  RC_ASSERT(padded % (multiple * tp) == 0);
  int64_t next = 0;
  for (int64_t rank = 0; rank < tp; ++rank) {
    const Span range = VocabUtility::vocab_range_from_global_vocab_size(padded, rank, tp);
    RC_ASSERT(range.begin == next);
    next = range.end;
  }
  RC_ASSERT(next == padded);
}

TEST(TensorParallel, ColumnLayersCutRowsAndBias) {
  const ParallelLayer layer{.kind = Kind::kColumn, .weight = {16, 2}, .stride = 2, .bias = true};
  const ParameterShard weight = weight_shard(layer, 1, 4);
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(weight.indices, (std::vector<Runs>{{{2, 4}, {10, 12}}, {{0, 2}}}));
  EXPECT_TRUE(weight.tensor_model_parallel);
  EXPECT_EQ(weight.partition_dim, 0);
  EXPECT_EQ(weight.partition_stride, 2);
  const auto bias = bias_shard(layer, 1, 4);
  ASSERT_TRUE(bias.has_value());
  EXPECT_EQ(bias->indices, (std::vector<Runs>{{{2, 4}, {10, 12}}}));
  EXPECT_TRUE(bias->tensor_model_parallel);
}

TEST(TensorParallel, RowLayersCutColumnsAndKeepTheBias) {
  const ParallelLayer layer{
      .kind = Kind::kRow, .weight = {3, 8}, .bias = true, .sequence_parallel = true};
  const ParameterShard weight = weight_shard(layer, 1, 2);
  EXPECT_EQ(weight.indices, (std::vector<Runs>{{{0, 3}}, {{4, 8}}}));
  EXPECT_EQ(weight.partition_dim, 1);
  EXPECT_FALSE(weight.sequence_parallel);
  const auto bias = bias_shard(layer, 1, 2);
  ASSERT_TRUE(bias.has_value());
  EXPECT_EQ(bias->shape, std::vector<int64_t>{3});
  EXPECT_FALSE(bias->tensor_model_parallel);
  EXPECT_TRUE(bias->sequence_parallel);
  EXPECT_FALSE(bias_shard(layer, 0, 1)->sequence_parallel) << "one rank has nothing to sum";
}

TEST(TensorParallel, LayersWithoutABias) {
  EXPECT_FALSE(bias_shard({.weight = {4, 4}}, 0, 2).has_value());
  const ParallelLayer embedding{.kind = Kind::kEmbedding, .weight = {4, 4}, .bias = true};
  EXPECT_FALSE(bias_shard(embedding, 0, 2).has_value());
}

TEST(TensorParallel, WeightsThatCannotBeCutAreRefused) {
  EXPECT_THROW(weight_shard({.weight = {10, 2}}, 0, 4), ConfigError);
  EXPECT_THROW(weight_shard({.kind = Kind::kRow, .weight = {10, 2}}, 0, 4), ConfigError);
  EXPECT_THROW(weight_shard({.weight = {12, 2}, .stride = 2}, 0, 4), ConfigError) << "3 in 2";
  EXPECT_THROW(weight_shard({.weight = {12, 2}, .stride = 0}, 0, 4), ConfigError);
  EXPECT_THROW(weight_shard({.weight = {0, 2}}, 0, 4), ConfigError);
  EXPECT_THROW(weight_shard({.weight = {12}}, 0, 4), ConfigError);
  EXPECT_THROW(weight_shard({.weight = {12, 2}}, 4, 4), ConfigError);
  EXPECT_THROW(weight_shard({.weight = {12, 2}}, 0, 0), ConfigError);
}

// Every index of the cut dimension is on one rank, in equal shares.
RC_GTEST_PROP(TensorParallelProperty, RanksShareTheWeight, ()) {
  const auto tp = *rc::gen::inRange<int64_t>(1, 9);
  const auto stride = *rc::gen::inRange<int64_t>(1, 4);
  const auto piece = *rc::gen::inRange<int64_t>(1, 5);
  const bool row = *rc::gen::arbitrary<bool>();
  const int64_t size = tp * stride * piece;
  const ParallelLayer layer{
      .kind = row ? Kind::kRow : Kind::kColumn,
      .weight = row ? std::vector{int64_t{3}, size} : std::vector{size, int64_t{3}},
      .stride = stride};
  std::vector<int64_t> owners(static_cast<size_t>(size), -1);
  for (int64_t rank = 0; rank < tp; ++rank) {
    const ParameterShard shard = weight_shard(layer, rank, tp);
    RC_ASSERT(shard.shape[row ? 1 : 0] == stride * piece);
    for (const Span& run : shard.indices[row ? 1 : 0]) {
      for (int64_t i = run.begin; i < run.end; ++i) owners[static_cast<size_t>(i)] = rank;
    }
  }
  for (size_t i = 0; i < owners.size(); ++i) {
    RC_ASSERT(owners[i] == static_cast<int64_t>(i) / piece % tp);
  }
}

TEST(TensorParallel, FusedQkvHasAllHeads) {
  EXPECT_EQ(fused_qkv(8, 2, 4, 32).weight, (std::vector<int64_t>{48, 32}));
  EXPECT_EQ(weight_shard(fused_qkv(16, 1, 2, 32), 3, 4).indices[0], (Runs{{27, 36}}));
  EXPECT_THROW(fused_qkv(0, 1, 2, 32), ConfigError);
  EXPECT_THROW(weight_shard(fused_qkv(8, 1, 1, 8), 0, 4), ConfigError) << "10 rows on 4 ranks";
}

}  // namespace
}  // namespace tessera::megatron

#include "tessera/dialect/olmo/context_parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera::olmo {
namespace {

const RingAttentionLoadBalancer kBalancer{RingAttentionLoadBalancerType::zig_zag, 0, 2};

at::Tensor numbers(std::vector<int64_t> list) {
  return at::tensor(list, at::kLong);
}

TEST(OlmoBatchShard, TakesThePositionsOfARankAndPads) {
  const at::Tensor ids = at::arange(7).view({1, 7});
  const at::Tensor rotary = at::arange(14, at::kFloat).view({7, 2});
  const auto parts = batch_shard(kBalancer, {ids, rotary}, {1, -2}, {{-100, 0.5}});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[0].equal(numbers({0, 1, 6, -100}).view({1, 4})));
  EXPECT_TRUE(parts[1].narrow(0, 0, 3).equal(rotary.index_select(0, numbers({0, 1, 6}))));
  EXPECT_TRUE(parts[1][3].equal(at::full({2}, 0.5)));
}

TEST(OlmoBatchShard, TakesDocuments) {
  const auto [inputs, documents] =
      batch_shard_by_document(kBalancer, {at::arange(9)}, {0}, {0, 5, 9}, {{-1}});
  EXPECT_TRUE(inputs[0].equal(numbers({0, 1, -1, -1, 5, 8})));
  EXPECT_EQ(documents.cu_doc_lens, (std::vector<int64_t>{0, 4, 6}));
}

TEST(OlmoBatchShard, RefusesWhatDoesNotFit) {
  const at::Tensor ids = at::arange(8);
  EXPECT_THROW(batch_shard(kBalancer, {}, {}), ConfigError);
  EXPECT_THROW(batch_shard(kBalancer, {ids}, {0, 1}), ConfigError);
  EXPECT_THROW(batch_shard(kBalancer, {ids}, {1}), ConfigError);
  EXPECT_THROW(batch_shard(kBalancer, {ids}, {0}, {{0, 0}}), ConfigError);
  EXPECT_THROW(batch_shard(kBalancer, {ids, at::arange(4)}, {0, 0}), ConfigError);
  EXPECT_THROW(batch_shard(kBalancer, {at::arange(7)}, {0}), ConfigError);
  EXPECT_THROW(batch_shard_by_document(kBalancer, {ids}, {0}, {0, 4}), ConfigError);
}

}  // namespace
}  // namespace tessera::olmo

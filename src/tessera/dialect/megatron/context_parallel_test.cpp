#include "tessera/dialect/megatron/context_parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/world.h"

namespace tessera::megatron {
namespace {

TEST(BatchOnThisCpRank, TakesTheHeadAndTheTail) {
  const World world = World::fake(GlobalRank{0}, 2);
  const at::Tensor tokens = at::arange(16).view({2, 8});
  const auto batch = get_batch_on_this_cp_rank(
      {{"tokens", tokens}, {"attention_mask", at::arange(8).view({1, 1, 8})}, {"labels", {}}},
      world.group());
  const at::Tensor own = at::tensor({0, 1, 6, 7}, at::kLong);
  EXPECT_TRUE(batch.at("tokens").equal(tokens.index_select(1, own)));
  EXPECT_TRUE(batch.at("attention_mask").equal(own.view({1, 1, 4})));
  EXPECT_FALSE(batch.at("labels").defined());
  EXPECT_THROW(get_batch_on_this_cp_rank({{"tokens", at::zeros({1, 10})}}, world.group()),
               ConfigError);
  EXPECT_THROW(get_batch_on_this_cp_rank({{"tokens", at::zeros({8})}}, world.group()), ConfigError);
  const World one = World::fake(GlobalRank{0}, 1);
  EXPECT_TRUE(
      get_batch_on_this_cp_rank({{"tokens", tokens}}, one.group()).at("tokens").is_same(tokens));
}

}  // namespace
}  // namespace tessera::megatron

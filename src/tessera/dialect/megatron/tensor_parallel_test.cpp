#include "tessera/dialect/megatron/tensor_parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/world.h"
#include "tessera/dialect/megatron/parallel_state.h"

namespace tessera::megatron {
namespace {

TEST(SplitTensor, AlongTheLastDimension) {
  const at::Tensor tensor = at::arange(24).view({2, 12});
  const auto views = split_tensor_along_last_dim(tensor, 3);
  ASSERT_EQ(views.size(), 3U);
  EXPECT_TRUE(views[1].equal(tensor.narrow(1, 4, 4)));
  EXPECT_TRUE(views[1].is_alias_of(tensor));
  EXPECT_FALSE(views[1].is_contiguous());
  const auto copies = split_tensor_along_last_dim(tensor, 3, true);
  EXPECT_TRUE(copies[2].equal(views[2]));
  EXPECT_TRUE(copies[2].is_contiguous());
}

TEST(SplitTensor, RefusesWhatHasNoEqualPieces) {
  EXPECT_THROW(split_tensor_along_last_dim(at::zeros({2, 10}), 4), ConfigError);
  EXPECT_THROW(split_tensor_along_last_dim(at::zeros({3, 0}), 2), ConfigError);
  EXPECT_THROW(split_tensor_along_last_dim(at::zeros({2, 10}), 0), ConfigError);
  EXPECT_THROW(split_tensor_along_last_dim(at::zeros({2, 10}), -5), ConfigError);
  EXPECT_THROW(split_tensor_along_last_dim(at::zeros({}), 1), ConfigError);
}

TEST(SplitTensor, IntoFlatChunks) {
  World world = World::fake(GlobalRank{2}, 4);
  const at::Tensor tensor = at::arange(24).view({4, 6});
  const at::Tensor view = split_tensor_into_1d_equal_chunks(tensor, false, world.group());
  EXPECT_TRUE(view.equal(at::arange(12, 18)));
  EXPECT_TRUE(view.is_alias_of(tensor));
  const at::Tensor copy = split_tensor_into_1d_equal_chunks(tensor, true, world.group());
  EXPECT_TRUE(copy.equal(view));
  EXPECT_FALSE(copy.is_alias_of(tensor));
  const auto split = [&](const at::Tensor& x) {
    return split_tensor_into_1d_equal_chunks(x, false, world.group());
  };
  EXPECT_THROW(split(at::zeros({5, 3})), ConfigError) << "3 elements would be on no rank";
  EXPECT_THROW(split(tensor.t()), ConfigError);
  EXPECT_EQ(split(at::zeros({0, 3})).numel(), 0);
}

TEST(SplitTensor, TakesMegatronsGroupByDefault) {
  World::make_current(World::fake(GlobalRank{3}, 4));
  initialize_model_parallel({.tensor_model_parallel_size = 2});
  EXPECT_TRUE(split_tensor_into_1d_equal_chunks(at::arange(8)).equal(at::arange(4, 8)));
  destroy_model_parallel();
  World::clear_current();
}

}  // namespace
}  // namespace tessera::megatron

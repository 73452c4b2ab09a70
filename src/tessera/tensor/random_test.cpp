#include "tessera/tensor/random.h"

#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/sharded_flat_tensor.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;
using testkit::message_of;

const RandomKey kKey{.seed = 7, .name = "layers.0.wq"};

at::Tensor whole(const Shape& shape, at::ScalarType type, const Distribution& distribution) {
  const at::Tensor tensor = at::empty(shape, type);
  init_(tensor, Box{shape, Shape(shape.size(), 0)}, shape, kKey, distribution);
  return tensor;
}

at::Tensor floats(const Shape& shape) {
  return whole(shape, at::kFloat, Normal{0, 0.02});
}

TEST(Init, ABoxHoldsItsPartOfTheFullTensor) {
  const Shape shape{6, 7, 5};
  const at::Tensor shard = at::empty({2, 3, 4});
  init_(shard, Box{{2, 3, 4}, {3, 4, 1}}, shape, kKey, Normal{0, 0.02});
  EXPECT_TRUE(shard.equal(floats(shape).narrow(0, 3, 2).narrow(1, 4, 3).narrow(2, 1, 4)));
}

TEST(Init, RunsHoldTheirPartsOfTheFlattenedTensor) {
  const at::Tensor shard = at::empty({7});
  const std::vector<Span> runs{{20, 25}, {3, 3}, {1, 3}};
  init_(shard, runs, kKey, Normal{0, 0.02});
  const at::Tensor flat = floats({5, 6}).flatten();
  EXPECT_TRUE(shard.equal(at::cat({flat.slice(0, 20, 25), flat.slice(0, 1, 3)})));
}

TEST(Init, NarrowTypesAreTheFloatRoundedToTheNearest) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    EXPECT_TRUE(whole({5000}, type, Normal{}).equal(whole({5000}, at::kFloat, Normal{}).to(type)));
  }
}

TEST(Init, FloatAndDoubleHaveValuesOfTheirOwn) {
  const at::Tensor doubles = whole({1000}, at::kDouble, Normal{});
  EXPECT_FALSE(doubles.to(at::kFloat).equal(whole({1000}, at::kFloat, Normal{})));
  EXPECT_FALSE(doubles.to(at::kFloat).to(at::kDouble).equal(doubles)) << "all digits are random";
}

TEST(Init, FillsTensorsThatAreNotContiguous) {
  const at::Tensor columns = at::empty({5, 6}).t();
  init_(columns, Box{{6, 5}, {0, 0}}, Shape{6, 5}, kKey, Normal{0, 0.02});
  EXPECT_TRUE(columns.equal(floats({6, 5})));
}

TEST(Init, FillsParametersAndScalarsAndNothing) {
  const at::Tensor leaf = at::empty({3}).set_requires_grad(true);
  init_(leaf, Box{{3}, {0}}, Shape{3}, kKey, Constant{2});
  EXPECT_TRUE(leaf.is_leaf() && leaf.equal(at::full({3}, 2.0)));
  EXPECT_EQ(whole({}, at::kFloat, Constant{4}).item<float>(), 4);
  EXPECT_EQ(floats({0, 3}).numel(), 0);
}

// A handle like at::Tensor, however it is copied or moved.
TEST(Init, FillsAllCopiesOfADTensor) {
  const World world = World::fake(GlobalRank{1}, 2);
  const DeviceMesh mesh(world, Layout::row_major({{"tp", 2}}));
  DTensor weight = DTensor::from_local(at::empty({2, 3}), mesh, {Shard{0}}, {.shape = Shape{4, 3}});
  const DTensor copy = weight;
  init_(copy, kKey, Normal{0, 0.02});
  EXPECT_TRUE(weight.to_local().equal(floats({4, 3}).narrow(0, 2, 2)));
  const DTensor moved = std::move(weight);
  EXPECT_EQ(weight.shape(), (Shape{4, 3}));
  EXPECT_EQ(weight.mesh().get_rank(), GlobalRank{1});
  EXPECT_TRUE(weight.to_local().is_same(moved.to_local()));
}

TEST(Init, FillsAllCopiesOfAShardedFlatTensor) {
  const World world = World::fake(GlobalRank{1}, 2);
  ShardedFlatTensor weight =
      ShardedFlatTensor::shard(at::empty({4, 3}), world.group(), {.synchronize = false});
  const ShardedFlatTensor copy = weight;
  init_(copy, kKey, Normal{0, 0.02});
  EXPECT_TRUE(weight.sharded_data().equal(floats({4, 3}).flatten().slice(0, 6, 12)));
  const ShardedFlatTensor moved = std::move(weight);
  EXPECT_TRUE(weight.sharded_data().is_same(moved.sharded_data()));
}

// Philox as in PyTorch: the seed is its key, the stream its subsequence, the block its offset.
TEST(Init, HasTheBitsOfPyTorchsPhilox) {
  const at::Tensor units = whole({64}, at::kFloat, Uniform{});
  const uint64_t stream = 0x141bca5167585939;  // Of the name.
  at::philox_engine engine(kKey.seed, stream, 0);
  for (int64_t i = 0; i < units.numel(); ++i) {
    EXPECT_EQ(units[i].item<float>(), static_cast<float>((engine() + 0.5) * 0x1p-32));
  }
}

TEST(InitErrors, NameTheValueTheRuleAndTheFix) {
  const Shape shape{4, 3};
  const auto refusal = [&](const at::Tensor& shard, const Box& box) {
    return message_of<ConfigError>([&] { init_(shard, box, shape, kKey, Normal{}); });
  };
  EXPECT_EQ(refusal(at::empty({2, 3}), {{3, 2}, {0, 0}}),
            "a shard of shape (2,3) does not match box (3,2)@(0,0); pass a box of the same shape");
  EXPECT_EQ(refusal(at::empty({2, 3}, at::kLong), {{2, 3}, {0, 0}}),
            "random values of dtype Long are not supported; use float, double, bfloat16, half or "
            "bool");
  EXPECT_EQ(
      refusal(at::empty({2, 3}), {{2, 3}, {3, 0}}),
      "box (2,3)@(3,0) is not inside a tensor of shape (4,3); give non-empty boxes inside it");
}

TEST(InitErrors, APartialTensorHasNoInitialValue) {
  const World world = World::fake(GlobalRank{0}, 2);
  const DeviceMesh mesh(world, Layout::row_major({{"tp", 2}}));
  const DTensor terms =
      DTensor::from_local(at::empty({4}), mesh, {Partial{}}, {.shape = Shape{4}, .check = false});
  EXPECT_EQ(message_of<ConfigError>([&] { init_(terms, kKey, Normal{}); }),
            "init_ of DTensor((4) Float, P(sum)) on DeviceMesh(tp=2) over ranks 0,1 is not "
            "possible, because it is Partial; redistribute it to R or a shard first");
}

TEST(InitErrors, RunsMustExistAndFit) {
  const auto refusal = [&](const std::vector<Span>& runs) {
    return message_of<ConfigError>([&] { init_(at::empty({4}), runs, kKey, Normal{}); });
  };
  EXPECT_EQ(refusal({{0, 3}}),
            "a shard of shape (4) has 4 elements, but its runs have 3; pass the shard of these "
            "runs");
  EXPECT_EQ(refusal({{0, 5}, {5, 4}}), "run [5, 4) is invalid; runs need 0 <= begin <= end");
}

}  // namespace
}  // namespace tessera

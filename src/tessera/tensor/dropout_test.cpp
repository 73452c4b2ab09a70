#include "tessera/tensor/dropout.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;

const Shape kShape{40, 50};
const RandomKey kKey{.seed = 7, .name = "layers.0.dropout", .call = 3};

at::Tensor drop(const at::Tensor& x, const RandomKey& key = kKey, double p = 0.25) {
  return dropout(x, Box{kShape, {0, 0}}, kShape, key, p);
}

TEST(Dropout, DropsAndScales) {
  const at::Tensor y = drop(at::ones(kShape));
  EXPECT_TRUE(y.eq(0).logical_or(y.eq(1 / 0.75F)).all().item<bool>());
  EXPECT_NEAR(y.mean().item<double>(), 1, 3 * std::sqrt(0.25 / 0.75 / 2000));
}

TEST(Dropout, AShardDropsTheSameElements) {
  const at::Tensor x = at::rand(kShape);
  const Box box{{11, 7}, {5, 13}};
  const at::Tensor part = x.narrow(0, 5, 11).narrow(1, 13, 7);
  EXPECT_TRUE(
      dropout(part, box, kShape, kKey, 0.25).equal(drop(x).narrow(0, 5, 11).narrow(1, 13, 7)));
}

TEST(Dropout, DiffersFromCallToCall) {
  const at::Tensor x = at::ones(kShape);
  RandomKey next = kKey;
  ++next.call;
  EXPECT_TRUE(drop(x).equal(drop(x)));
  EXPECT_FALSE(drop(x).equal(drop(x, next)));
}

TEST(Dropout, DropsTheSameGradients) {
  const at::Tensor x = at::rand(kShape).set_requires_grad(true);
  drop(x).backward(at::full(kShape, 3.0));
  EXPECT_TRUE(x.grad().equal(drop(at::full(kShape, 3.0))));
}

TEST(Dropout, KeepsTheTypeOfItsInput) {
  const at::Tensor x = at::ones(kShape, at::kBFloat16);
  EXPECT_EQ(drop(x).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(drop(x).ne(0).equal(drop(x.to(at::kDouble)).ne(0))) << "one mask for all types";
}

TEST(Dropout, AllOrNothing) {
  const at::Tensor x = at::rand(kShape);
  EXPECT_TRUE(drop(x, kKey, 0).equal(x));
  EXPECT_TRUE(drop(x, kKey, 1).equal(at::zeros(kShape)));
  EXPECT_EQ(testkit::message_of<ConfigError>([&] { drop(x, kKey, 1.5); }),
            "the dropout probability must be from 0 to 1, but is 1.5");
}

}  // namespace
}  // namespace tessera

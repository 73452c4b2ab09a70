#include "tessera/parallel/recompute/recompute.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

// tanh(x·w) with dropout by the global generator; counts its runs.
struct Layer {
  at::Tensor weight = at::ones({4, 4}, at::kDouble).div_(3).requires_grad_();
  std::shared_ptr<int> runs = std::make_shared<int>(0);

  Unit unit() const {
    const auto forward = [weight = weight, runs = runs](const at::Tensor& x, const Pass&) {
      ++*runs;
      return at::dropout(at::tanh(x.matmul(weight)), 0.5, /*train=*/true);
    };
    return {.name = "layer", .parameters = {{"weight", weight}}, .forward = forward};
  }
};

at::Tensor input() {
  return at::ones({3, 4}, at::kDouble).requires_grad_();
}

TEST(Recompute, GradientsHaveTheSameBits) {
  const Layer plain, again;
  const at::Tensor x = input(), y = input();
  at::manual_seed(1);
  plain.unit().forward(x, {}).sum().backward();
  const at::Tensor drawn = at::randn({4});
  at::manual_seed(1);
  recompute(again.unit()).forward(y, {}).sum().backward();
  EXPECT_TRUE(y.grad().equal(x.grad()));
  EXPECT_TRUE(again.weight.grad().equal(plain.weight.grad()));
  EXPECT_EQ(*again.runs, 2);
  EXPECT_TRUE(at::randn({4}).equal(drawn)) << "what comes after sees no second run";
}

TEST(Recompute, AnInputWithoutGradientIsFine) {
  const Layer layer;
  recompute(layer.unit()).forward(input().detach(), {}).sum().backward();
  EXPECT_TRUE(layer.weight.grad().defined());
}

TEST(Recompute, RunsOnceWithoutGradients) {
  const Layer layer;
  const at::NoGradGuard no_grad;
  recompute(layer.unit()).forward(input(), {});
  EXPECT_EQ(*layer.runs, 1);
}

}  // namespace
}  // namespace tessera

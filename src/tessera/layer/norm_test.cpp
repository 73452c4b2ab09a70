#include "tessera/layer/norm.h"
#include "tests/testkit/device.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/rms_norm.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testkit::here;

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

struct Result {
  at::Tensor y;
  at::Tensor of_x;
  at::Tensor of_weight;
};

template <class Norm>
Result result_of(const at::Tensor& values, const at::Tensor& weights, const Norm& norm) {
  const at::Tensor x = values.clone().requires_grad_();
  const at::Tensor weight = weights.clone().requires_grad_();
  const at::Tensor y = norm(x, weight);
  y.square().sum().backward();
  return {y.detach(), x.grad(), weight.grad()};
}

// Compares with LibTorch's norm and its autograd gradients.
void expect_libtorchs(at::ScalarType dtype, double tolerance) {
  const at::Tensor x = at::rand({2, 3, 16}, here(at::kDouble)).sub(0.5).to(dtype);
  const at::Tensor weight = at::rand({16}, here(at::kDouble)).add(0.5).to(dtype);
  const Result ours =
      result_of(x, weight, [](const auto& a, const auto& w) { return rms_norm(a, w, 1e-5); });
  const Result expected = result_of(
      x, weight, [](const auto& a, const auto& w) { return at::rms_norm(a, {16}, w, 1e-5); });
  EXPECT_EQ(ours.y.scalar_type(), dtype);
  EXPECT_EQ(ours.of_x.scalar_type(), dtype);
  EXPECT_EQ(ours.of_weight.scalar_type(), dtype);
  EXPECT_LT(largest_difference(ours.y, expected.y), tolerance);
  EXPECT_LT(largest_difference(ours.of_x, expected.of_x), tolerance);
  EXPECT_LT(largest_difference(ours.of_weight, expected.of_weight), tolerance);
}

TEST(RmsNorm, IsLibTorchsWithItsGradients) {
  expect_libtorchs(at::kDouble, 1e-12);
  expect_libtorchs(at::kFloat, 1e-4);
}

TEST(RmsNorm, OfNarrowDtypesIsComputedInSinglePrecision) {
  expect_libtorchs(at::kBFloat16, 0.2);
  const at::Tensor x = at::rand({4, 64}, here()).to(at::kBFloat16);
  const at::Tensor weight = at::rand({64}, here()).to(at::kBFloat16);
  const at::Tensor exact = rms_norm(x.to(at::kDouble), weight.to(at::kDouble), 1e-5);
  const at::Tensor error = rms_norm(x, weight, 1e-5).to(at::kDouble).sub(exact).div(exact);
  EXPECT_LT(error.abs().max().item<double>(), 1.01 / 256);  // It is rounded once.
}

TEST(NormedSum, IsTheSumAndItsNorm) {
  const at::Tensor x = at::rand({2, 3, 16}, here()).requires_grad_();
  const at::Tensor added = at::rand({2, 3, 16}, here()).requires_grad_();
  const at::Tensor weight = at::rand({16}, here());
  const NormedSum both = normed_sum(x, added, weight, 1e-5);
  EXPECT_LT(largest_difference(both.sum, x + added), 1e-6);
  EXPECT_LT(largest_difference(both.normed, rms_norm(x + added, weight, 1e-5)), 1e-5);
  (both.sum.square().sum() + both.normed.sum()).backward();
  EXPECT_TRUE(x.grad().equal(added.grad()));
  const NormedSum alone = normed_sum(x, {}, weight, 1e-5);
  EXPECT_TRUE(alone.sum.equal(x));
  EXPECT_LT(largest_difference(alone.normed, rms_norm(x, weight, 1e-5)), 1e-6);
}

}  // namespace
}  // namespace tessera

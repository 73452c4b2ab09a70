#include "tessera/layer/linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/layer/internal/few_rows.h"
#include "tests/testkit/device.h"
#include "tests/testkit/operators.h"

namespace tessera {
namespace {

using testkit::here;

at::Tensor leaf(at::IntArrayRef shape) {
  return at::rand(shape, here(at::kDouble)).sub(0.5).requires_grad_();
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

// Shapes that fill whole tiles of the kernel for few rows, and ones that do not.
TEST(LinearProduct, OfFewRowsIsTheSame) {
  for (const int64_t rows : {1, 2, 3, 4, 7, 8, 32, 33}) {
    for (const int64_t inputs : {1, 7, 8, 40, 65}) {
      const at::Tensor x = at::rand({rows, inputs}, here()).sub(0.5);
      const at::Tensor weight = at::rand({29, inputs}, here()).sub(0.5);
      const at::Tensor bias = at::rand({29}, here());
      const c10::InferenceMode inference;
      const at::Tensor exact = at::linear(x.to(at::kDouble), weight.to(at::kDouble));
      // Sums of up to 65 products below 1/4 in single precision.
      EXPECT_LT(largest_difference(linear_product(x, weight), exact), 2e-6);
      EXPECT_LT(largest_difference(linear_product(x, weight, bias), exact.add(bias)), 2e-6);
    }
  }
}

// So that a text does not depend on those that are generated beside it.
TEST(LinearProduct, ARowHasTheSameBitsBesideOthers) {
  const at::Tensor x = at::rand({2, 4, 51}).sub(0.5);
  const at::Tensor weight = at::rand({37, 51}).sub(0.5);
  const c10::InferenceMode inference;
  if (!has_avx2()) GTEST_SKIP() << "this processor has no AVX2";
  ASSERT_TRUE(layer::detail::is_of_few_rows(x, weight));
  const at::Tensor all = linear_product(x, weight);
  ASSERT_EQ(all.sizes(), (std::vector<int64_t>{2, 4, 37}));
  for (int64_t i = 0; i < 8; ++i) {
    const at::Tensor row = x.flatten(0, 1).narrow(0, i, 1);
    EXPECT_TRUE(linear_product(row, weight)[0].equal(all.flatten(0, 1)[i])) << i;
  }
}

TEST(LinearProduct, TakesAnyLayoutAndRefusesOtherWidths) {
  const at::Tensor x = at::rand({5, 24}, here()).sub(0.5);
  const at::Tensor weight = at::rand({24, 9}, here()).sub(0.5);
  const c10::InferenceMode inference;
  const at::Tensor y = linear_product(x.slice(1, 0, 24, 2), weight.slice(0, 0, 24, 2).t());
  const at::Tensor exact =
      at::matmul(x.slice(1, 0, 24, 2).to(at::kDouble), weight.slice(0, 0, 24, 2).to(at::kDouble));
  EXPECT_LT(largest_difference(y, exact), 2e-6);
  EXPECT_LT(largest_difference(linear_product(x.slice(1, 0, 24, 2), weight.t().slice(1, 0, 12)),
                               at::linear(x.slice(1, 0, 24, 2), weight.t().slice(1, 0, 12))),
            2e-6);
  EXPECT_THROW((void)linear_product(x, weight), c10::Error);
}

struct Net {
  at::Tensor x = leaf({2, 3, 5});
  at::Tensor first = leaf({7, 5});
  at::Tensor first_bias = leaf({7});
  at::Tensor second = leaf({4, 7});

  at::Tensor loss(const WeightGradients* deferred) const {
    const at::Tensor hidden = linear(x, first, first_bias, {.deferred = deferred}).tanh();
    return linear(hidden, second, {}, {.deferred = deferred}).square().sum();
  }
  std::vector<at::Tensor> parameters() const { return {first, first_bias, second}; }
};

std::vector<at::Tensor> taken_gradients(const Net& net) {
  std::vector<at::Tensor> gradients{net.x.grad()};
  net.x.mutable_grad().reset();
  for (const at::Tensor& parameter : net.parameters()) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

TEST(DeferredLinear, EqualsPlainBackwardOverTwoMicrobatches) {
  const Net net;
  for (int i = 0; i < 2; ++i) net.loss(nullptr).backward();
  const std::vector<at::Tensor> plain = taken_gradients(net);
  std::array<WeightGradients, 2> later;
  for (const WeightGradients& queue : later) net.loss(&queue).backward();
  for (const WeightGradients& queue : later) queue.run();
  const std::vector<at::Tensor> deferred = taken_gradients(net);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LT(largest_difference(plain[i], deferred[i]), 1e-12) << i;
  }
}

TEST(DeferredLinear, InputGradientComesAtOnceAndWeightsLater) {
  const Net net;
  const WeightGradients later;
  net.loss(&later).backward();
  EXPECT_TRUE(net.x.grad().defined());
  for (const at::Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
  EXPECT_EQ(later.size(), 2U);
  later.run();
  for (const at::Tensor& parameter : net.parameters()) EXPECT_TRUE(parameter.grad().defined());
  EXPECT_TRUE(later.empty());
}

// The input of a model's first layer needs no gradient.
TEST(DeferredLinear, WeightsLearnWhereTheInputDoesNot) {
  const at::Tensor x = at::rand({3, 5}, here(at::kDouble));
  const at::Tensor weight = leaf({2, 5});
  const WeightGradients later;
  linear(x, weight, {}, {.deferred = &later}).sum().backward();
  later.run();
  const at::Tensor expected = x.sum(0).expand({2, 5});
  EXPECT_LT(largest_difference(weight.grad(), expected), 1e-12);
}

struct CountHook : torch::autograd::PostAccumulateGradHook {
  explicit CountHook(int& count) : count_(count) {}
  void operator()(const torch::autograd::Variable& tensor) override {
    if (tensor.grad().defined()) ++count_;
  }
  int& count_;
};

TEST(DeferredLinear, RunsTheHooksOfTheWeight) {
  const at::Tensor weight = leaf({2, 5});
  int count = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<CountHook>(count));
  const WeightGradients later;
  linear(at::rand({3, 5}, here(at::kDouble)), weight, {}, {.deferred = &later}).sum().backward();
  EXPECT_EQ(count, 0);
  later.run();
  EXPECT_EQ(count, 1);
}

// The second product adds to the gradient in its place, and the hooks run again.
TEST(DeferredLinear, AddsToAGradientInItsPlace) {
  const at::Tensor weight = leaf({2, 5});
  int count = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<CountHook>(count));
  const at::Tensor x = at::rand({3, 5}, here(at::kDouble));
  const WeightGradients later;
  const auto add = [&] {
    linear(x, weight, {}, {.deferred = &later}).sum().backward();
    count = 0;
    later.run();
    EXPECT_EQ(count, 1);
    return weight.grad();
  };
  const at::Tensor first = add();
  const at::Tensor once = first.clone();
  const at::Tensor second = add();
  EXPECT_EQ(second.const_data_ptr(), first.const_data_ptr());
  EXPECT_LT(largest_difference(second, once * 2), 1e-12);
}

const Pass kAdds{.adds_gradients = true};

// What autograd adds itself has the same values; hooks run once per pass.
TEST(AddingLinear, AddsToAGradientInItsPlace) {
  const at::Tensor weight = leaf({2, 5});
  int count = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<CountHook>(count));
  const at::Tensor x = at::rand({3, 5}, here(at::kDouble));
  const testkit::OperatorCalls calls;
  linear(x, weight, {}, kAdds).sum().backward();
  const at::Tensor first = weight.grad();
  const at::Tensor once = first.clone();
  EXPECT_EQ(count, 1);
  EXPECT_EQ(calls.count("aten::addmm_"), 0U);
  linear(x, weight, {}, kAdds).sum().backward();
  EXPECT_EQ(count, 2);
  EXPECT_EQ(calls.count("aten::addmm_"), 1U);
  EXPECT_EQ(weight.grad().const_data_ptr(), first.const_data_ptr());
  EXPECT_LT(largest_difference(weight.grad(), once * 2), 1e-12);
}

// A weight that two layers share gets the sum of both, and one call of its hook.
TEST(AddingLinear, AddsBothUsesOfAWeight) {
  const at::Tensor weight = leaf({5, 5});
  const auto pass = [&](const Pass& how) {
    linear(linear(at::ones({3, 5}, here(at::kDouble)), weight, {}, how).tanh(), weight, {}, how)
        .sum()
        .backward();
  };
  for (int i = 0; i < 2; ++i) pass({});
  const at::Tensor wanted = weight.grad();
  weight.mutable_grad().reset();
  int count = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<CountHook>(count));
  for (int i = 0; i < 2; ++i) pass(kAdds);
  EXPECT_EQ(count, 2);
  EXPECT_LT(largest_difference(weight.grad(), wanted), 1e-12);
}

TEST(AddingLinear, ShowsEachGradientToItsHook) {
  const at::Tensor weight = leaf({2, 5});
  std::vector<at::Tensor> seen;
  weight.register_hook([&](const at::Tensor& gradient) { seen.push_back(gradient.clone()); });
  const at::Tensor x = at::rand({3, 5}, here(at::kDouble));
  for (int i = 0; i < 2; ++i) linear(x, weight, {}, kAdds).sum().backward();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_LT(largest_difference(seen[0], seen[1]), 1e-12);
}

// As the first of two backward passes of a stage does.
TEST(AddingLinear, LeavesWeightsAloneThatAPassDoesNotReach) {
  const at::Tensor weight = leaf({2, 5});
  const at::Tensor x = leaf({3, 5});
  linear(x, weight, {}, kAdds).sum().backward();
  const at::Tensor before = weight.grad().clone();
  const at::Tensor sum = linear(x, weight, {}, kAdds).sum();
  torch::autograd::grad({sum}, {x}, {}, /*retain_graph=*/true);
  EXPECT_TRUE(weight.grad().equal(before));
  sum.backward();
  EXPECT_LT(largest_difference(weight.grad(), before * 2), 1e-12);
}

TEST(AddingLinear, GradientsOfAnotherDtypeAreAddedByAutograd) {
  const at::Tensor weight = at::rand({2, 5}, here(at::kBFloat16)).requires_grad_();
  weight.mutable_grad() = at::zeros({2, 5}, here(at::kBFloat16));
  const at::Tensor x = at::rand({3, 5}, here(at::kBFloat16));
  EXPECT_FALSE(add_product_in_place(weight, at::rand({2, 3}), at::rand({3, 5})));
  linear(x, weight, {}, kAdds).sum().backward();
  EXPECT_TRUE(weight.grad().any().item<bool>());
}

// A hook of the gradient sees each one by itself, and nothing in the backward pass.
TEST(DeferredLinear, ShowsEachGradientToItsHook) {
  const at::Tensor weight = leaf({2, 5});
  std::vector<at::Tensor> seen;
  weight.register_hook([&](const at::Tensor& gradient) {
    if (gradient.defined()) seen.push_back(gradient.clone());
  });
  const at::Tensor x = at::rand({3, 5}, here(at::kDouble));
  const WeightGradients later;
  for (int i = 0; i < 2; ++i) linear(x, weight, {}, {.deferred = &later}).sum().backward();
  later.run();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_LT(largest_difference(seen[0], seen[1]), 1e-12);
}

TEST(DeferredLinear, HoldsNothingWithoutGradients) {
  const Net net;
  const WeightGradients later;
  {
    const at::NoGradGuard no_grad;
    net.loss(&later);
  }
  EXPECT_TRUE(later.empty());
}

TEST(DeferredLinear, RefusesAWeightThatIsNoParameter) {
  const WeightGradients later;
  EXPECT_THROW(linear(leaf({3, 5}), leaf({2, 5}).mul(2), {}, {.deferred = &later}), ConfigError);
}

}  // namespace
}  // namespace tessera

// One product for several layers, where there are kernels.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <optional>
#include <string>

#include "tessera/layer/linear.h"
#include "tessera/tensor/place_together.h"
#include "tests/gpu/device.h"
#include "tests/testkit/operators.h"

namespace tessera {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::array<int64_t, 3> kRows{24, 8, 8};

// Weights that lie behind each other, as place_together() leaves them.
Tensors joined_weights() {
  const at::Tensor block = at::randn({24 + 8 + 8, 32}, kGpu);
  Tensors weights = block.split_with_sizes(kRows, 0);
  for (at::Tensor& weight : weights) weight = weight.detach().requires_grad_();
  return weights;
}

std::vector<LinearWeights> layers_of(const Tensors& weights) {
  std::vector<LinearWeights> layers;
  for (const at::Tensor& weight : weights) layers.push_back({weight});
  return layers;
}

TEST(JoinedLinear, ParametersArePlacedTogether) {
  Parameters parameters;
  for (const int64_t rows : {3, 5}) {
    const std::string name = std::to_string(rows);
    parameters.emplace_back(name, at::randn({rows, 32}, kGpu).requires_grad_());
    parameters.emplace_back(name + ".bias", at::randn({rows}, kGpu).requires_grad_());
  }
  const at::Tensor before = parameters[2].tensor.detach().clone();
  place_together(parameters);
  EXPECT_TRUE(parameters[2].tensor.equal(before));
  const auto follows = [&](size_t first, size_t second) {
    const at::Tensor& tensor = parameters[first].tensor;
    return parameters[second].tensor.const_data_ptr<float>() ==
           tensor.const_data_ptr<float>() + tensor.numel();
  };
  EXPECT_TRUE(follows(0, 2) && follows(1, 3)) << "matrices behind matrices";
}

struct Way {
  bool deferred;
  bool bias;
  bool frozen;  // Whether the second layer does not learn.
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const bool deferred : {false, true}) {
    for (const bool bias : {false, true}) {
      for (const bool frozen : {false, true}) all.push_back({deferred, bias, frozen});
    }
  }
  return all;
}

struct ThreeLayers {
  explicit ThreeLayers(const Way& way) {
    at::manual_seed(3);
    for (size_t i = 0; i < kRows.size(); ++i) {
      const bool learns = !(way.frozen && i == 1);
      const std::string name = std::to_string(i);
      parameters.emplace_back(name, at::randn({kRows[i], 32}, kGpu).requires_grad_(learns));
      weights.push_back({parameters.back().tensor});
      if (!way.bias) continue;
      parameters.emplace_back(name + ".bias", at::randn({kRows[i]}, kGpu).requires_grad_(learns));
      weights.back().bias = parameters.back().tensor;
    }
  }

  Parameters parameters = {};
  std::vector<LinearWeights> weights = {};
};

void expect_same_gradients(const Parameters& got, const Parameters& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor& gradient = wanted[i].tensor.grad();
    ASSERT_EQ(got[i].tensor.grad().defined(), gradient.defined()) << wanted[i].name;
    if (!gradient.defined()) continue;
    EXPECT_TRUE(at::allclose(got[i].tensor.grad(), gradient, 1e-4, 1e-3)) << wanted[i].name;
  }
}

TEST(JoinedLinear, IsOneProductOfWeightsThatLieBehindEachOther) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(c10::str(way.deferred, way.bias, way.frozen));
    const ThreeLayers together(way);
    place_together(together.parameters);
    const ThreeLayers separate(way);
    const at::Tensor x = at::randn({2, 5, 32}, kGpu).requires_grad_();
    const at::Tensor same = x.detach().clone().requires_grad_();
    const WeightGradients later;
    const Tensors made = linear(x, together.weights, {.deferred = way.deferred ? &later : nullptr});
    EXPECT_TRUE(made[0].is_alias_of(made[2])) << "one product";
    at::Tensor loss = at::zeros({}, kGpu);
    at::Tensor other = at::zeros({}, kGpu);
    for (size_t i = 0; i < made.size(); ++i) {
      const auto& [weight, bias] = separate.weights[i];
      const at::Tensor wanted =
          at::linear(same, weight, bias.defined() ? std::optional(bias) : std::nullopt);
      EXPECT_TRUE(at::allclose(made[i], wanted, 1e-4, 1e-4));
      loss = loss + made[i].square().sum();
      other = other + wanted.square().sum();
    }
    loss.backward();
    later.run();
    other.backward();
    EXPECT_TRUE(at::allclose(x.grad(), same.grad(), 1e-4, 1e-3));
    expect_same_gradients(together.parameters, separate.parameters);
  }
}

TEST(JoinedLinear, ASecondRunGetsTheProductBack) {
  const ThreeLayers layers({.deferred = false, .bias = true, .frozen = false});
  place_together(layers.parameters);
  const at::Tensor x = at::randn({2, 5, 32}, kGpu);
  KeptResults kept;
  const Tensors first = linear(x, layers.weights, {.kept = &kept});
  kept.begin_second_run(kept.take(at::Tensor()));
  const testkit::OperatorCalls calls;
  const Tensors second = linear(x, layers.weights, {.kept = &kept});
  EXPECT_EQ(calls.count("aten::linear"), 0U);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(second[i].equal(first[i]));
}

TEST(JoinedLinear, GradientsOfGradientsHaveAllTheirTerms) {
  const auto gradient = [](bool joins) {
    const ThreeLayers layers({.deferred = false, .bias = true, .frozen = false});
    if (joins) place_together(layers.parameters);
    at::manual_seed(4);
    const at::Tensor x = at::randn({2, 5, 32}, kGpu).requires_grad_();
    at::Tensor loss = at::zeros({}, kGpu);
    for (const at::Tensor& y : linear(x, layers.weights, {})) loss = loss + y.square().sum();
    const at::Tensor of_x = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true,
                                                  /*create_graph=*/true)[0];
    of_x.square().sum().backward();
    return layers.weights[1].weight.grad();
  };
  EXPECT_TRUE(at::allclose(gradient(true), gradient(false), 1e-4, 1e-2));
}

// The gradients of the first pass lie behind each other, so one product adds to all of them.
TEST(JoinedLinear, AddsToGradientsInTheirPlace) {
  const Tensors weights = joined_weights();
  const at::Tensor x = at::randn({2, 5, 32}, kGpu);
  const auto pass = [&] {
    const Tensors made = linear(x, layers_of(weights), {.adds_gradients = true});
    (made[0].square().sum() + made[1].square().sum() + made[2].square().sum()).backward();
  };
  pass();
  Tensors once;
  for (const at::Tensor& weight : weights) once.push_back(weight.grad().clone());
  const testkit::OperatorCalls calls;
  pass();
  EXPECT_EQ(calls.count("aten::addmm_"), 1U);
  // A pass for the input alone adds nothing.
  const at::Tensor input = x.clone().requires_grad_();
  const at::Tensor sum = linear(input, layers_of(weights), {.adds_gradients = true})[0].sum();
  torch::autograd::grad({sum}, {input}, /*grad_outputs=*/{}, /*retain_graph=*/true);
  // Nor does one for some of the weights.
  const at::Tensor some = torch::autograd::grad({sum}, {weights[0]})[0];
  EXPECT_TRUE(at::allclose(some, x.flatten(0, 1).sum(0).expand({24, 32}), 1e-4, 1e-3));
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_TRUE(at::allclose(weights[i].grad(), once[i] * 2, 1e-4, 1e-3)) << i;
  }
}

}  // namespace
}  // namespace tessera

// One product for several layers, where there are kernels.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
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

TEST(JoinedLinear, IsOneProductOfWeightsThatLieBehindEachOther) {
  for (const bool deferred : {false, true}) {
    at::manual_seed(3);
    const Tensors together = joined_weights();
    Tensors separate;
    for (const at::Tensor& weight : together) {
      separate.push_back(weight.detach().clone().requires_grad_());
    }
    const at::Tensor x = at::randn({2, 5, 32}, kGpu).requires_grad_();
    const at::Tensor same = x.detach().clone().requires_grad_();
    const WeightGradients later;
    const Pass pass{.deferred = deferred ? &later : nullptr};
    const Tensors made = linear(x, layers_of(together), pass);
    EXPECT_TRUE(made[0].is_alias_of(made[2])) << "one product";
    at::Tensor loss = at::zeros({}, kGpu);
    at::Tensor other = at::zeros({}, kGpu);
    for (size_t i = 0; i < made.size(); ++i) {
      const at::Tensor wanted = at::linear(same, separate[i]);
      EXPECT_TRUE(at::allclose(made[i], wanted, 1e-4, 1e-4));
      loss = loss + made[i].square().sum();
      other = other + wanted.square().sum();
    }
    loss.backward();
    later.run();
    other.backward();
    EXPECT_TRUE(at::allclose(x.grad(), same.grad(), 1e-4, 1e-3));
    for (size_t i = 0; i < separate.size(); ++i) {
      EXPECT_TRUE(at::allclose(together[i].grad(), separate[i].grad(), 1e-4, 1e-3));
    }
  }
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

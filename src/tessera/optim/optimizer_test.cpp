// Compares AdamW and SGD with LibTorch's, and tests what both have in common.
#include "tessera/optim/optimizer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/grouped.h"
#include "tessera/optim/sgd.h"
#include "tessera/tensor/unallocated.h"
#include "tests/testkit/device.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::here;
using testkit::message_of;

constexpr int kSteps = 20;

at::Tensor some(at::IntArrayRef shape, at::ScalarType dtype) {
  static at::Generator random = at::detail::createCPUGenerator(1);
  return at::rand(shape, random, at::kDouble).sub(0.5).to(here(dtype));
}

double rate_of(int step) {
  return 1e-2 / (1 + step);
}

Parameters some_parameters(at::ScalarType dtype) {
  Parameters parameters;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{7, 5}, {1}, {0}, {3, 33}}) {
    parameters.push_back({std::to_string(parameters.size()), some(shape, dtype).requires_grad_()});
  }
  return parameters;
}

Parameters copies_of(const Parameters& parameters, at::ScalarType dtype) {
  Parameters copies;
  for (const Parameter& parameter : parameters) {
    copies.push_back(
        {parameter.name, parameter.tensor.detach().to(dtype, false, true).requires_grad_()});
  }
  return copies;
}

std::vector<at::Tensor> tensors_of(const Parameters& parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

// Sets the same gradients for both, rounded to the dtype of the first.
void set_gradients(const Parameters& a, const Parameters& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const at::Tensor gradient = some(a[i].tensor.sizes(), a[i].tensor.scalar_type());
    a[i].tensor.mutable_grad() = gradient;
    b[i].tensor.mutable_grad() = gradient.to(b[i].tensor.scalar_type(), false, true);
  }
}

double largest_difference(const Parameters& a, const Parameters& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].tensor.numel() == 0) continue;
    const at::Tensor difference = a[i].tensor.detach().sub(b[i].tensor.detach()).abs().max();
    largest = std::max(largest, difference.item<double>());
  }
  return largest;
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Parameters&)>;
using MakePeer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

// The difference from LibTorch's weights after some steps with a changing learning rate.
double distance_from_peer(at::ScalarType dtype, const MakeOptimizer& make,
                          const MakePeer& make_peer) {
  const Parameters ours = some_parameters(dtype);
  const Parameters theirs = copies_of(ours, dtype);
  const auto optimizer = make(ours);
  const auto peer = make_peer(tensors_of(theirs));
  for (int step = 0; step < kSteps; ++step) {
    set_gradients(ours, theirs);
    optimizer->step(rate_of(step));
    peer->param_groups()[0].options().set_lr(rate_of(step));
    peer->step();
  }
  return largest_difference(ours, theirs);
}

std::unique_ptr<Optimizer> adamw(const Parameters& parameters) {
  return std::make_unique<AdamW>(parameters, AdamWOptions{.weight_decay = 0.3});
}

std::unique_ptr<torch::optim::Optimizer> peer_adamw(const std::vector<at::Tensor>& parameters) {
  return std::make_unique<torch::optim::AdamW>(
      parameters, torch::optim::AdamWOptions().betas({0.9, 0.95}).weight_decay(0.3));
}

std::unique_ptr<Optimizer> momentum(const Parameters& parameters) {
  return std::make_unique<Sgd>(parameters, SgdOptions{.momentum = 0.9, .weight_decay = 0.1});
}

// The order of operations differs, not the formula: a difference of a few ULPs.
constexpr double kFloatDistance = 1e-6;
constexpr double kDoubleDistance = 1e-14;

TEST(AdamW, IsLibTorchs) {
  EXPECT_LT(distance_from_peer(at::kFloat, adamw, peer_adamw), kFloatDistance);
  EXPECT_LT(distance_from_peer(at::kDouble, adamw, peer_adamw), kDoubleDistance);
}

TEST(Sgd, IsLibTorchs) {
  for (const SgdOptions& options :
       {SgdOptions{}, SgdOptions{.momentum = 0.9}, SgdOptions{.weight_decay = 0.1},
        SgdOptions{.momentum = 0.8, .nesterov = true, .weight_decay = 0.2}}) {
    const auto ours = [&](const Parameters& p) { return std::make_unique<Sgd>(p, options); };
    const auto theirs = [&](const std::vector<at::Tensor>& p) {
      return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(1)
                                                        .momentum(options.momentum)
                                                        .nesterov(options.nesterov)
                                                        .weight_decay(options.weight_decay));
    };
    EXPECT_LT(distance_from_peer(at::kFloat, ours, theirs), kFloatDistance);
    EXPECT_LT(distance_from_peer(at::kDouble, ours, theirs), kDoubleDistance);
  }
}

class EitherOptimizer : public testing::TestWithParam<MakeOptimizer> {};
INSTANTIATE_TEST_SUITE_P(, EitherOptimizer, testing::Values(adamw, momentum),
                         [](const auto& info) { return info.index == 0 ? "AdamW" : "Sgd"; });

// The difference between shards of a tensor and the full tensor.
double distance_of_pieces(const MakeOptimizer& make, at::IntArrayRef sizes) {
  const at::Tensor whole = some({1003}, at::kFloat);
  Parameters pieces;
  for (const at::Tensor& piece : whole.split_with_sizes(sizes)) {
    pieces.push_back({std::to_string(pieces.size()), piece.clone().requires_grad_()});
  }
  const Parameters one{{"whole", whole.requires_grad_()}};
  const auto of_whole = make(one);
  const auto of_pieces = make(pieces);
  for (int step = 0; step < kSteps; ++step) {
    whole.mutable_grad() = some({1003}, at::kFloat);
    int64_t begin = 0;
    for (const Parameter& piece : pieces) {
      const int64_t size = piece.tensor.numel();
      piece.tensor.mutable_grad() = whole.grad().narrow(0, begin, size).clone();
      begin += size;
    }
    of_whole->step(rate_of(step));
    of_pieces->step(rate_of(step));
  }
  return largest_difference({{"", at::cat(tensors_of(pieces))}}, one);
}

TEST_P(EitherOptimizer, ShardsGetTheBitsOfTheFullTensor) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(distance_of_pieces(GetParam(), {16, 480, 32, 475}), 0);
    EXPECT_LT(distance_of_pieces(GetParam(), {1, 17, 500, 485}), 1e-7);  // A few ULPs.
  }
}

TEST_P(EitherOptimizer, ShortFloatsFollowAFloatRunAndAreRoundedOnce) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Parameters shorts = some_parameters(dtype);
    const Parameters floats = copies_of(shorts, at::kFloat);
    const auto of_shorts = GetParam()(shorts);
    const auto of_floats = GetParam()(floats);
    for (int step = 0; step < kSteps; ++step) {
      set_gradients(shorts, floats);
      of_shorts->step(rate_of(step));
      of_floats->step(rate_of(step));
    }
    for (size_t i = 0; i < shorts.size(); ++i) {
      EXPECT_TRUE(shorts[i].tensor.equal(floats[i].tensor.to(dtype))) << i;
    }
  }
}

// Clipping before the step gives the same bits; without a factor nothing changes.
TEST_P(EitherOptimizer, MultipliesGradientsByAFactor) {
  const Parameters ours = some_parameters(at::kFloat);
  const Parameters theirs = copies_of(ours, at::kFloat);
  const auto optimizer = GetParam()(ours), other = GetParam()(theirs);
  for (int step = 0; step < 3; ++step) {
    set_gradients(ours, theirs);
    for (const Parameter& parameter : theirs) parameter.tensor.mutable_grad().mul_(0.3);
    optimizer->step(0.1, 0.3);
    other->step(0.1);
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(ours[i].tensor.equal(theirs[i].tensor)) << i;
  }
}

std::vector<at::Tensor> values_of(const Optimizer& optimizer, const Parameters& parameters) {
  std::vector<at::Tensor> values;
  for (const Parameter& one : parameters) values.push_back(one.tensor.detach().clone());
  for (const OptimizerState& one : optimizer.state()) values.push_back(one.tensor.clone());
  return values;
}

TEST_P(EitherOptimizer, AFactorThatIsNotFiniteChangesNothing) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Parameters parameters = some_parameters(dtype);
    const auto optimizer = GetParam()(parameters);
    set_gradients(parameters, parameters);
    optimizer->step(0.1, at::full({}, 0.5, here(at::kDouble)));
    const std::vector<at::Tensor> before = values_of(*optimizer, parameters);
    for (const double factor : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      optimizer->step(0.1, at::full({}, factor, here(at::kDouble)));
      optimizer->step(0.1, factor);
    }
    const std::vector<at::Tensor> after = values_of(*optimizer, parameters);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].equal(before[i])) << i;
    optimizer->step(0.1);
    EXPECT_FALSE(parameters[0].tensor.equal(before[0]));
  }
}

// 1e-7 / 65536 is zero in float16. A scalar has no dimension.
TEST(Sgd, UndoesALossScaleInFloat32) {
  const at::Tensor weight = at::zeros({3}, here(at::kHalf)).requires_grad_();
  const at::Tensor scalar = at::zeros({}, here(at::kHalf)).requires_grad_();
  Sgd optimizer({{"weight", weight}, {"scalar", scalar}});
  for (const at::Tensor& tensor : {weight, scalar}) {
    tensor.mutable_grad() = at::full_like(tensor.detach(), 0.25);
  }
  optimizer.step(1e5, 1.0 / (1 << 24));
  for (const at::Tensor& tensor : {weight, scalar}) {
    EXPECT_TRUE(tensor.equal(at::full_like(tensor, -1e5 / (1 << 26))));
    EXPECT_TRUE(tensor.grad().eq(0.25).all().item<bool>());
  }
}

TEST(Sgd, SmallUpdatesOfShortFloatsAddUp) {
  const at::Tensor weight = at::full({3}, 1, here(at::kBFloat16)).requires_grad_();
  Sgd optimizer({{"weight", weight}});
  weight.mutable_grad() = at::full({3}, 1, here(at::kBFloat16));
  for (int step = 0; step < 1000; ++step) optimizer.step(1e-4);  // 1 - 1e-4 rounds to 1 there.
  EXPECT_NEAR(weight[0].item<double>(), 0.9, 0.002);
}

TEST_P(EitherOptimizer, ParametersWithoutGradientStayAsTheyAre) {
  const Parameters parameters = some_parameters(at::kFloat);
  const Parameters late = copies_of({parameters[0]}, at::kFloat);
  const auto optimizer = GetParam()(parameters);
  const auto alone = GetParam()(late);
  const at::Tensor before = parameters[0].tensor.detach().clone();
  parameters[1].tensor.mutable_grad() = some({1}, at::kFloat);
  for (int step = 0; step < 3; ++step) optimizer->step(0.1);
  EXPECT_TRUE(parameters[0].tensor.equal(before));
  // Its first step is the one with its first gradient.
  set_gradients({parameters[0]}, late);
  optimizer->step(0.1);
  alone->step(0.1);
  EXPECT_TRUE(parameters[0].tensor.equal(late[0].tensor));
}

TEST_P(EitherOptimizer, ParametersWithoutRequiresGradDoNotChange) {
  const at::Tensor frozen = at::zeros({2}, here());
  const Parameters parameters{{"frozen", frozen}, {"b", some({2}, at::kFloat).requires_grad_()}};
  for (const OptimizerState& state : GetParam()(parameters)->state()) EXPECT_EQ(state.name, "b");
  EXPECT_EQ(message_of<ConfigError>([&] { GetParam()({{"frozen", frozen}}); }),
            "none of 1 parameters requires a gradient; there is nothing to optimize");
}

TEST_P(EitherOptimizer, ZeroGradDropsGradients) {
  const Parameters parameters = some_parameters(at::kFloat);
  set_gradients(parameters, parameters);
  const auto optimizer = GetParam()(parameters);
  optimizer->zero_grad();
  for (const Parameter& parameter : parameters) {
    EXPECT_FALSE(parameter.tensor.grad().defined());
  }
}

TEST_P(EitherOptimizer, GradientsOfAnyStridesServe) {
  const Parameters turned{{"a", some({4, 6}, at::kFloat).requires_grad_()}};
  const Parameters plain = copies_of(turned, at::kFloat);
  const at::Tensor gradient = some({6, 4}, at::kFloat).t();
  turned[0].tensor.mutable_grad() = gradient;
  plain[0].tensor.mutable_grad() = gradient.contiguous();
  GetParam()(turned)->step(0.1);
  GetParam()(plain)->step(0.1);
  EXPECT_TRUE(turned[0].tensor.equal(plain[0].tensor));
}

// Like a checkpoint: a new model and optimizer with copied values and state give the same bits.
TEST_P(EitherOptimizer, StateCarriesOnARun) {
  const Parameters first = some_parameters(at::kBFloat16);
  const auto before = GetParam()(first);
  for (int step = 0; step < 5; ++step) {
    set_gradients(first, first);
    before->step(rate_of(step));
  }
  const Parameters second = copies_of(first, at::kBFloat16);
  const auto after = GetParam()(second);
  const auto from = before->state();
  const auto to = after->state();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].name + from[i].kind, to[i].name + to[i].kind);
    to[i].tensor.copy_(from[i].tensor);
  }
  for (int step = 5; step < 10; ++step) {
    set_gradients(first, second);
    before->step(rate_of(step));
    after->step(rate_of(step));
  }
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].tensor.equal(second[i].tensor));
}

std::string kinds_of(const Optimizer& optimizer) {
  std::string kinds;
  for (const OptimizerState& state : optimizer.state()) kinds += state.kind + " ";
  return kinds;
}

TEST(Optimizers, NameTheirState) {
  const Parameters one{{"a", some({2}, at::kFloat).requires_grad_()}};
  const Parameters brief{{"a", some({2}, at::kHalf).requires_grad_()}};
  EXPECT_EQ(kinds_of(AdamW(one)), "step exp_avg exp_avg_sq ");
  EXPECT_EQ(kinds_of(AdamW(brief)), "step exp_avg exp_avg_sq master ");
  EXPECT_EQ(kinds_of(Sgd(one)), "");
  EXPECT_EQ(kinds_of(Sgd(brief, {.momentum = 0.9})), "momentum_buffer master ");
}

TEST(Optimizers, RefuseParametersThatTheyCannotChange) {
  const at::Tensor tensor = some({2, 3}, at::kFloat).requires_grad_();
  const auto refusal = [](const Parameters& parameters) {
    return message_of<ConfigError>([&] { Sgd{parameters}; });
  };
  EXPECT_EQ(refusal({{"a", tensor}, {"b", tensor}}),
            "parameters 'a' and 'b' are one tensor; list it once");
  EXPECT_EQ(refusal({{"a", tensor}, {"a", some({1}, at::kFloat).requires_grad_()}}),
            "two parameters are called 'a'; names must be unique");
  EXPECT_EQ(refusal({{"a", some({2, 3}, at::kFloat).t().requires_grad_()}}),
            "parameter 'a' is not contiguous; make it contiguous before building the optimizer");
  EXPECT_EQ(refusal({{"a", at::zeros({2}, here(at::kComplexFloat)).requires_grad_()}}),
            "parameter 'a' has dtype ComplexFloat; optimizers support Double, Float, BFloat16 and "
            "Half");
  EXPECT_EQ(refusal({{"a", tensor}, {"b", some({1}, at::kDouble).requires_grad_()}}),
            concat("'a' is updated in Float on ", tensor.device(), ", 'b' in Double on ",
                   tensor.device(), "; use one optimizer per dtype and device"));
  EXPECT_EQ(message_of<StateError>(
                [] { Sgd{Parameters{{"a", unallocated({3}, at::kFloat).requires_grad_()}}}; }),
            "parameter 'a' has no values yet; load or initialize it before building the optimizer");
}

TEST(Optimizers, RefuseOptionsOutOfTheirRange) {
  const Parameters one{{"a", some({2}, at::kFloat).requires_grad_()}};
  EXPECT_EQ(message_of<ConfigError>([&] { AdamW(one, {.beta2 = 1}); }),
            "the betas of AdamW must be ≥ 0 and < 1, but are 0.9 and 1");
  EXPECT_EQ(message_of<ConfigError>([&] { AdamW(one, {.eps = -1}); }),
            "eps of AdamW must be ≥ 0, but is -1");
  EXPECT_EQ(message_of<ConfigError>([&] { AdamW(one, {.weight_decay = -0.1}); }),
            "weight decay must be ≥ 0, but is -0.1");
  EXPECT_EQ(message_of<ConfigError>([&] { Sgd(one, {.momentum = -0.1}); }),
            "momentum must be ≥ 0, but is -0.1");
  EXPECT_EQ(message_of<ConfigError>([&] { Sgd(one, {.nesterov = true}); }),
            "Nesterov needs a momentum > 0, but it is 0");
  EXPECT_EQ(message_of<ConfigError>([&] { AdamW(one).step(-1); }),
            "the learning rate must be finite and ≥ 0, but is -1");
}

TEST(Grouped, EachGroupHasItsOwnOptions) {
  const auto make = [](const char* name, at::IntArrayRef shape) {
    Parameter parameter(name, at::ones(shape).requires_grad_());
    parameter.tensor.mutable_grad() = at::zeros(shape);
    return parameter;
  };
  const Parameters all{make("weight", {2, 3}), make("norm", {3}), make("bias", {2})};
  const auto [matrices, others] = split_parameters(all, is_matrix);
  ASSERT_EQ(matrices.size(), 1U);
  ASSERT_EQ(others.size(), 2U);
  std::vector<std::unique_ptr<Optimizer>> groups;
  groups.push_back(std::make_unique<AdamW>(matrices, AdamWOptions{.weight_decay = 0.5}));
  groups.push_back(std::make_unique<Sgd>(others, SgdOptions{.momentum = 0.9}));
  Grouped optimizer(std::move(groups));
  optimizer.step(0.1);
  EXPECT_TRUE(all[0].tensor.allclose(at::full({2, 3}, 0.95)));
  EXPECT_TRUE(all[1].tensor.equal(at::ones({3})));
  const std::vector<OptimizerState> state = optimizer.state();
  ASSERT_EQ(state.size(), 3U + 2U);
  EXPECT_EQ(state[0].name, "weight");
  EXPECT_EQ(state[4].name, "bias");
  optimizer.zero_grad();
  EXPECT_FALSE(all[2].tensor.grad().defined());
}

TEST(Optimizer, ABackwardPassNoticesAStepBeforeIt) {
  const at::Tensor weight = at::ones({2}).requires_grad_();
  Sgd optimizer({{"weight", weight}});
  weight.square().sum().backward();
  const at::Tensor late = weight.square().sum();
  optimizer.step(0.1);
  EXPECT_THROW(late.backward(), c10::Error) << "it would use other weights than its forward pass";
}

}  // namespace
}  // namespace tessera

// A whole model with the kernels of a GPU, beside the same model without them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "tessera/comm/world.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama.h"
#include "tessera/model/llama_units.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/sgd.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/compose.h"
#include "tessera/train/trainer.h"
#include "tests/gpu/device.h"
#include "tests/gpu/small_llama.h"
#include "tests/testkit/operators.h"

namespace tessera {
namespace {

struct Step {
  double loss;
  std::vector<at::Tensor> gradients;
};

Step step_of(at::ScalarType dtype, at::Device device, Fp8 fp8) {
  Llama model(kSmallLlama);
  model.initialize(/*seed=*/1);
  model.to(dtype);
  model.to(device);
  at::manual_seed(7);
  const at::Tensor tokens = at::randint(kSmallLlama.vocab_size, {2, 17}, at::kLong).to(device);
  const Pass pass{.fp8 = fp8};
  const at::Tensor loss =
      token_loss(model.forward(tokens.slice(1, 0, 16), pass), tokens.slice(1, 1, 17));
  loss.backward();
  Step step{.loss = loss.item<double>(), .gradients = {}};
  for (const Parameter& parameter : model.named_parameters()) {
    step.gradients.push_back(parameter.tensor.grad().cpu().to(at::kDouble));
  }
  return step;
}

double relative_error(const at::Tensor& got, const at::Tensor& wanted) {
  return ((got - wanted).norm() / wanted.norm()).item<double>();
}

void expect_near(const Step& got, const Step& wanted, double loss, double gradients) {
  EXPECT_NEAR(got.loss, wanted.loss, loss);
  ASSERT_EQ(got.gradients.size(), wanted.gradients.size());
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    EXPECT_LT(relative_error(got.gradients[i], wanted.gradients[i]), gradients) << i;
  }
}

// float32 with sums in another order; bfloat16 rounds every result by up to 2^-9, some 20 in a row.
TEST(ModelKernels, GiveTheGradientsOfLibTorch) {
  ASSERT_TRUE(has_kernels(at::empty({1}, kGpu)));
  const Step exact = step_of(at::kDouble, at::kCPU, Fp8::kNone);
  expect_near(step_of(at::kFloat, kGpu, Fp8::kNone), exact, 1e-5, 1e-5);
  expect_near(step_of(at::kBFloat16, kGpu, Fp8::kNone), exact, 1e-2, 5e-2);
}

// The same products of the same float8 values; what is added in another order rounds differently,
// which moves some values to the next of float8.
TEST(ModelKernels, RoundToFloat8LikeLibTorch) {
  for (const Fp8 fp8 : {Fp8::kRowwise, Fp8::kTensorwise}) {
    const Step got = step_of(at::kBFloat16, kGpu, fp8);
    const WithoutKernels plain;
    expect_near(got, step_of(at::kBFloat16, at::kCPU, fp8), 1e-2, 0.1);
  }
}

// Tokens of the host, as files give them.
class RandomBatches final : public BatchSource {
 public:
  int64_t batch() const override { return 2; }
  BatchTensors rows(int64_t, Span rows) const override {
    const at::Tensor tokens = at::randint(kSmallLlama.vocab_size, {rows.size(), 17}, at::kLong);
    return {.inputs = tokens.slice(1, 0, 16), .targets = tokens.slice(1, 1, 17)};
  }
};

Engine engine_of(const World& world, const LlamaConfig& config = kSmallLlama,
                 at::ScalarType dtype = at::kBFloat16) {
  Model model = llama_model(config, {.dtype = dtype, .device = kGpu});
  model.fill = [config](const Parameters& all) { fill_llama(all, config, /*seed=*/1); };
  return compose(model, realize(train_plan(1, {}), world), {.batch = 2, .device = kGpu});
}

// Notes how many operators had been called after each update.
class WatchedOptimizer final : public Optimizer {
 public:
  WatchedOptimizer(std::unique_ptr<Optimizer> optimizer, const testkit::OperatorCalls& calls)
      : optimizer_(std::move(optimizer)), calls_(calls) {}

  void step(double learning_rate, const at::Tensor& gradient_factor) override {
    optimizer_->step(learning_rate, gradient_factor);
    ends.push_back(calls_.names().size());
  }
  void zero_grad() override { optimizer_->zero_grad(); }
  std::vector<OptimizerState> state() const override { return optimizer_->state(); }

  std::vector<size_t> ends = {};

 private:
  std::unique_ptr<Optimizer> optimizer_;
  const testkit::OperatorCalls& calls_;
};

struct Update {
  at::ScalarType dtype;
  std::function<std::unique_ptr<Optimizer>(const Parameters&)> make;
};

class EachUpdate : public testing::TestWithParam<Update> {
 protected:
  const World world_ = World::connect(LaunchInfo{}, {});
  Engine engine_ = engine_of(world_, kSmallLlama, GetParam().dtype);
  const testkit::OperatorCalls calls_;
  WatchedOptimizer optimizer_{GetParam().make(engine_.parameters()), calls_};
};

std::unique_ptr<Optimizer> make_adamw(const Parameters& parameters) {
  return std::make_unique<AdamW>(parameters);
}

std::unique_ptr<Optimizer> make_sgd(const Parameters& parameters) {
  return std::make_unique<Sgd>(parameters);
}

std::unique_ptr<Optimizer> make_momentum_sgd(const Parameters& parameters) {
  return std::make_unique<Sgd>(parameters, SgdOptions{.momentum = 0.9});
}

INSTANTIATE_TEST_SUITE_P(ModelKernels, EachUpdate,
                         testing::Values(Update{at::kBFloat16, make_adamw},
                                         Update{at::kFloat, make_adamw},
                                         Update{at::kBFloat16, make_sgd},
                                         Update{at::kFloat, make_sgd},
                                         Update{at::kBFloat16, make_momentum_sgd},
                                         Update{at::kFloat, make_momentum_sgd}));

// A value that the host reads is one that it waits for.
TEST_P(EachUpdate, TheHostQueuesAWholeStepBeforeItWaits) {
  train({.steps = 2, .learning_rate = {.peak = 1e-3, .steps = 2}, .clip = 1}, engine_,
        RandomBatches(), optimizer_);
  const auto begin = std::ranges::find(calls_.names(), "aten::embedding");
  const auto update = calls_.names().begin() + static_cast<std::ptrdiff_t>(optimizer_.ends[0]);
  // Tokens on a CPU are checked: the smallest and the largest target.
  EXPECT_EQ(std::count(begin, update, "aten::_local_scalar_dense"), kGpu == at::kCPU ? 2 : 0);
  EXPECT_EQ(std::count(begin, update, "aten::linalg_vector_norm"), 0);  // The kernels were used.
  EXPECT_GT(std::count(begin, update, "aten::mm"), 0);                  // Backward, too.
}

TEST_P(EachUpdate, TheHostQueuesSeveralStepsBeforeItWaits) {
  std::vector<size_t> updates;  // When a loss was known.
  train({.steps = 6, .learning_rate = {.peak = 1e-3, .steps = 6}, .sync_every = 3}, engine_,
        RandomBatches(), optimizer_,
        {.after_step = [&](const StepMetrics&) { updates.push_back(optimizer_.ends.size()); }});
  EXPECT_EQ(updates, (std::vector<size_t>{3, 3, 3, 6, 6, 6}));
  // The host counts the targets of each step, and checks tokens that are on a CPU.
  EXPECT_EQ(calls_.count("aten::_local_scalar_dense"), kGpu == at::kCPU ? 6U * 5 : 6U);
}

struct Calls {
  size_t copies_of_layout;  // Of elements into another order, and of parts into a whole.
  size_t other_copies;      // To another dtype or device.
  size_t products;
};

Calls calls_in_a_step(int64_t layers) {
  LlamaConfig config = kSmallLlama;
  config.num_hidden_layers = layers;
  const World world = World::connect(LaunchInfo{}, {});
  Engine engine = engine_of(world, config);
  const BatchTensors batch = RandomBatches().rows(0, {0, 2});
  const testkit::OperatorCalls calls;
  (void)engine.train_step(batch.inputs, batch.targets);
  const size_t of_layout = calls.count("aten::clone") + calls.count("aten::cat");
  return {of_layout, calls.count("aten::copy_") - of_layout, calls.count("aten::mm")};
}

// Products, heads and attention take each other's layout as it is.
TEST(ModelKernels, ABlockCopiesNothing) {
  const Calls fewer = calls_in_a_step(2);
  const Calls more = calls_in_a_step(5);
  EXPECT_EQ(more.copies_of_layout, fewer.copies_of_layout);
  // The weight gradients of both norms are sums in float32, which are rounded.
  EXPECT_EQ(more.other_copies - fewer.other_copies, 3 * 2);
}

// Of queries, keys and values as one, of the heads, of gate and up as one, and of the way down.
TEST(ModelKernels, ABlockHasFourLinearLayers) {
  constexpr size_t kProductsOfALayer = 3;
  EXPECT_EQ(calls_in_a_step(5).products - calls_in_a_step(2).products, 3 * 4 * kProductsOfALayer);
}

}  // namespace
}  // namespace tessera

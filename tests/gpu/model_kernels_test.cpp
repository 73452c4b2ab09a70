// A whole model with the kernels of a GPU, beside the same model without them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/comm/world.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama.h"
#include "tessera/model/llama_units.h"
#include "tessera/optim/adamw.h"
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

Engine engine_of(const World& world, const LlamaConfig& config = kSmallLlama) {
  Model model = llama_model(config, {.dtype = at::kBFloat16, .device = kGpu});
  model.fill = [config](const Parameters& all) { fill_llama(all, config, /*seed=*/1); };
  return compose(model, realize(train_plan(1, {}), world), {.batch = 2, .device = kGpu});
}

// A value that the host reads is one that it waits for.
TEST(ModelKernels, TheHostQueuesAWholeStepBeforeItWaits) {
  const World world = World::connect(LaunchInfo{}, {});
  Engine engine = engine_of(world);
  AdamW optimizer(engine.parameters());
  const testkit::OperatorCalls calls;
  train({.steps = 2, .learning_rate = {.peak = 1e-3, .steps = 2}, .clip = 1}, engine,
        RandomBatches(), optimizer);
  const auto begin = std::ranges::find(calls.names(), "aten::embedding");
  const auto update = std::find(begin, calls.names().end(), "aten::_foreach_add_");
  ASSERT_NE(update, calls.names().end());
  // Tokens on a CPU are checked: the smallest and the largest target.
  EXPECT_EQ(std::count(begin, update, "aten::_local_scalar_dense"), kGpu == at::kCPU ? 2 : 0);
  EXPECT_EQ(std::count(begin, update, "aten::linalg_vector_norm"), 0);  // The kernels were used.
  EXPECT_GT(std::count(begin, update, "aten::mm"), 0);                  // Backward, too.
}

TEST(ModelKernels, TheHostQueuesSeveralStepsBeforeItWaits) {
  const World world = World::connect(LaunchInfo{}, {});
  Engine engine = engine_of(world);
  AdamW optimizer(engine.parameters());
  const testkit::OperatorCalls calls;
  std::vector<int64_t> updates;  // When a loss was known.
  train({.steps = 6, .learning_rate = {.peak = 1e-3, .steps = 6}, .sync_every = 3}, engine,
        RandomBatches(), optimizer, {.after_step = [&](const StepMetrics&) {
          updates.push_back(static_cast<int64_t>(calls.count("aten::_foreach_add_")));
        }});
  EXPECT_EQ(updates, (std::vector<int64_t>{3, 3, 3, 6, 6, 6}));
  // The host counts the targets of each step, and checks tokens that are on a CPU.
  EXPECT_EQ(calls.count("aten::_local_scalar_dense"), kGpu == at::kCPU ? 6U * 5 : 6U);
}

struct Copies {
  size_t of_layout;  // Of tensors whose elements lie in another order, and of parts into a whole.
  size_t others;     // To another dtype or device.
};

Copies copies_in_a_step(int64_t layers) {
  LlamaConfig config = kSmallLlama;
  config.num_hidden_layers = layers;
  const World world = World::connect(LaunchInfo{}, {});
  Engine engine = engine_of(world, config);
  const BatchTensors batch = RandomBatches().rows(0, {0, 2});
  const testkit::OperatorCalls calls;
  (void)engine.train_step(batch.inputs, batch.targets);
  const size_t of_layout = calls.count("aten::clone") + calls.count("aten::cat");
  return {of_layout, calls.count("aten::copy_") - of_layout};
}

// Products, heads and attention take each other's layout as it is.
TEST(ModelKernels, ABlockCopiesNothing) {
  const Copies fewer = copies_in_a_step(2);
  const Copies more = copies_in_a_step(5);
  EXPECT_EQ(more.of_layout, fewer.of_layout);
  // The weight gradients of both norms are sums in float32, which are rounded.
  EXPECT_EQ(more.others - fewer.others, 3 * 2);
}

}  // namespace
}  // namespace tessera

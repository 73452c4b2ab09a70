// Steps in which the gradients of one rank are infinite: all ranks skip them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/grad_scaler.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/compose.h"
#include "tessera/train/trainer.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::run_ranks;

constexpr int64_t kBatch = 4;
constexpr int64_t kBadStep = 1;
constexpr int64_t kSteps = 4;

class Numbers final : public BatchSource {
 public:
  int64_t batch() const override { return kBatch; }
  BatchTensors rows(int64_t step, Span rows) const override {
    const at::Tensor all = at::arange(kBatch * 3, at::kFloat).view({kBatch, 3}).sin();
    const at::Tensor own = all.slice(0, rows.begin, rows.end) + 0.1 * static_cast<double>(step);
    return {own, own.sum(1, /*keepdim=*/true)};
  }
};

// tanh(x·weight) + bias in two units; five numbers that two shards cannot halve. `bad` makes the
// gradients of this rank infinite.
Model model_of_dtype(at::ScalarType dtype, const std::shared_ptr<bool>& bad) {
  const at::TensorOptions here = testkit::here(dtype);
  const at::Tensor weight = at::full({3, 1}, 0.5, here).requires_grad_();
  const at::Tensor bias = at::full({1, 1}, 0.25, here).requires_grad_();
  const auto product = [=](const at::Tensor& x, const Pass&) {
    const at::Tensor y = x.to(dtype).matmul(weight);
    if (*bad && y.requires_grad()) {
      y.register_hook([](const at::Tensor& gradient) {
        return gradient * std::numeric_limits<float>::infinity();
      });
    }
    return y;
  };
  const auto shifted = [=](const at::Tensor& x, const Pass&) { return x.tanh() + bias; };
  const auto loss = [](const at::Tensor& y, const at::Tensor& target) {
    return (y.to(at::kFloat) - target).square().mean();
  };
  return model_of({{.name = "product", .parameters = {{"weight", weight}}, .forward = product},
                   {.name = "shifted", .parameters = {{"bias", bias}}, .forward = shifted}},
                  loss);
}

std::vector<at::Tensor> values_of(const Engine& engine, const Optimizer& optimizer) {
  std::vector<at::Tensor> values;
  for (const Parameter& parameter : engine.parameters()) {
    values.push_back(parameter.tensor.detach().clone());
  }
  for (const OptimizerState& state : optimizer.state()) values.push_back(state.tensor.clone());
  return values;
}

bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b,
                            [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

struct Case {
  ParallelDims dims;
  at::ScalarType dtype;
};

void check_case(World& world, const Case& c) {
  const auto bad = std::make_shared<bool>(false);
  Engine engine =
      compose(model_of_dtype(c.dtype, bad), realize(train_plan(world.size(), c.dims), world),
              {.batch = kBatch, .device = testkit::device()});
  AdamW optimizer(engine.parameters());
  GradScaler scaler({.initial_scale = 1024});  // With more, good steps overflow, too.
  TrainerOptions options{
      .steps = kSteps, .learning_rate = {.peak = 0.1}, .clip = 0.5, .non_finite = NonFinite::kSkip};
  if (c.dtype == at::kHalf) options.scaler = &scaler;
  std::vector<at::Tensor> before = values_of(engine, optimizer);
  const auto after_step = [&](const StepMetrics& step) {
    const bool was_bad = step.step == kBadStep;
    const std::vector<at::Tensor> now = values_of(engine, optimizer);
    const std::string text = concat("step ", step.step, " on rank ", world.rank().value, " of ",
                                    to_string(c.dims), " in ", c10::toString(c.dtype));
    RANK_EXPECT(step.skipped == was_bad) << text;
    RANK_EXPECT(std::isfinite(step.grad_norm) == !was_bad) << text;
    RANK_EXPECT(std::isfinite(step.loss)) << text;
    RANK_EXPECT(are_equal(now, before) == was_bad) << text;
    if (step.loss_scale) {
      RANK_EXPECT(*step.loss_scale == (step.step > kBadStep ? 512 : 1024)) << text;
    }
    before = now;
    *bad = world.rank().value == 1 && step.step + 1 == kBadStep;
  };
  train(options, engine, Numbers(), optimizer, {.after_step = after_step});
}

TEST(NonFinite, AllRanksSkipAStepIfOneHasInfiniteGradients) {
  run_ranks(2, [](World& world) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) {
      check_case(world, {{.dp_replicate = 2}, dtype});
      check_case(world, {{.dp_shard = 2}, dtype});
    }
  });
}

}  // namespace
}  // namespace tessera

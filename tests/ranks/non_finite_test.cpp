// Steps in which the gradients of one rank are infinite: all ranks skip them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/error.h"
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

struct Training {
  std::vector<std::array<double, 3>> steps;  // Number, loss and norm; -1 if that is not finite.
  std::vector<at::Tensor> values;
  std::string error;
};

Training train_queued(World& world, const Case& c, NonFinite policy, int64_t queued) {
  const auto bad = std::make_shared<bool>(false);
  Engine engine =
      compose(model_of_dtype(c.dtype, bad), realize(train_plan(world.size(), c.dims), world),
              {.batch = kBatch, .device = testkit::device()});
  AdamW optimizer(engine.parameters());
  Training made;
  const TrainerOptions options{.steps = 12,
                               .learning_rate = {.peak = 0.1},
                               .clip = 0.5,
                               .sync_every = queued,
                               .non_finite = policy};
  const auto before_step = [&](int64_t step) {
    *bad = world.rank().value == 1 && (step == 5 || step == 6 || step == 9);
  };
  const auto after_step = [&](const StepMetrics& step) {
    const double norm = step.is_good() ? step.grad_norm : -1;
    made.steps.push_back({static_cast<double>(step.step), step.loss, norm});
  };
  try {
    train(options, engine, Numbers(), optimizer,
          {.before_step = before_step, .after_step = after_step});
  } catch (const NumericError& error) {
    made.error = error.what();
  }
  made.values = values_of(engine, optimizer);
  return made;
}

// Whether they were queued in the same round as the step that is not finite, before or after it.
TEST(NonFinite, NoOtherQueuedStepIsLostOrDoneTwice) {
  run_ranks(2, [](World& world) {
    for (const Case& c : {Case{{.dp_replicate = 2}, at::kFloat}, Case{{.dp_shard = 2}, at::kFloat},
                          Case{{.dp_replicate = 2}, at::kBFloat16}}) {
      for (const NonFinite policy : {NonFinite::kSkip, NonFinite::kStop}) {
        const Training expected = train_queued(world, c, policy, 1);
        const bool stops = policy == NonFinite::kStop;
        RANK_EXPECT(expected.steps.size() == (stops ? 6 : 12));
        RANK_EXPECT(expected.error.empty() != stops);
        for (const int64_t queued : {2, 5, 100}) {
          const Training made = train_queued(world, c, policy, queued);
          const std::string text =
              concat(queued, " steps on rank ", world.rank().value, " of ", to_string(c.dims),
                     " in ", c10::toString(c.dtype), ": ", made.error);
          RANK_EXPECT(made.error == expected.error) << text;
          RANK_EXPECT(are_equal(made.values, expected.values)) << text;
          RANK_EXPECT(std::ranges::equal(made.steps, expected.steps)) << text;
        }
      }
    }
  });
}

}  // namespace
}  // namespace tessera

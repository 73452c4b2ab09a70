// A model in a world of one rank.
#include "tessera/train/compose.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "tessera/base/error.h"
#include "tessera/comm/world.h"
#include "tessera/layer/module_unit.h"
#include "tessera/plan/train_plan.h"
#include "tessera/schedule/csv.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

// The mean squared error of a line through the origin.
struct Line {
  at::Tensor slope = at::arange(1, 4, at::kDouble).requires_grad_();
  World world = World::connect(LaunchInfo{}, {});

  Engine engine(int64_t slices) const {
    const auto forward = [slope = slope](const at::Tensor& x, const Pass&) {
      return x.matmul(slope);
    };
    const auto loss = [](const at::Tensor& y, const at::Tensor& target) {
      return (y - target).square().mean();
    };
    const Model model =
        model_of({{.name = "line", .parameters = {{"slope", slope}}, .forward = forward}}, loss);
    return compose(model, realize(train_plan(1, {}), world),
                   {.batch = 5, .schedule = one_rank(slices)});
  }
};

const at::Tensor kInputs = at::randn({5, 3}, at::kDouble);
const at::Tensor kTargets = at::randn({5}, at::kDouble);

TEST(Compose, OneRankTakesTheWholeBatch) {
  EXPECT_EQ(Line().engine(1).rows(), (Span{0, 5}));
}

TEST(Compose, SlicesOfUnevenSizeGiveTheGradientOfTheWhole) {
  const Line whole;
  const at::Tensor loss = whole.engine(1).train_step(kInputs, kTargets);
  for (const int64_t slices : {2, 3, 5}) {
    const Line cut;
    const at::Tensor sum = cut.engine(slices).train_step(kInputs, kTargets);
    EXPECT_TRUE(sum.allclose(loss, 1e-13)) << slices;
    EXPECT_TRUE(cut.slope.grad().allclose(whole.slope.grad(), 1e-13)) << slices;
    EXPECT_FALSE(sum.requires_grad());
  }
}

TEST(Compose, EvaluatesWithoutGradients) {
  const Line line;
  const at::Tensor loss = line.engine(2).evaluate(kInputs, kTargets);
  EXPECT_FALSE(line.slope.grad().defined());
  EXPECT_TRUE(loss.allclose(line.engine(1).train_step(kInputs, kTargets), 1e-13));
}

TEST(Compose, MeasuresTheGradient) {
  const Line line;
  Engine engine = line.engine(1);
  engine.train_step(kInputs, kTargets);
  const at::Tensor before = line.slope.grad().clone();
  EXPECT_DOUBLE_EQ(engine.grad_norm().item<double>(), before.norm().item<double>());
  EXPECT_TRUE(line.slope.grad().equal(before));
}

TEST(Compose, ScalesTheGradientAndNotTheLoss) {
  const Line plain, scaled;
  const at::Tensor loss = plain.engine(2).train_step(kInputs, kTargets);
  EXPECT_TRUE(scaled.engine(2).train_step(kInputs, kTargets, 1024).equal(loss));
  EXPECT_TRUE(scaled.slope.grad().equal(plain.slope.grad() * 1024));
}

// Each rank would compute whole layers of whole sequences, and the sums over ranks would be wrong.
TEST(Compose, RefusesToSplitAModule) {
  const World world = World::fake(GlobalRank{0}, 2);
  const auto refusal = [&](const ParallelDims& dims) {
    const Model model = model_of({module_unit("net", torch::nn::Linear(3, 3))},
                                 [](const at::Tensor& y, const at::Tensor&) { return y.mean(); });
    try {
      compose(model, realize(train_plan(2, dims), world), {.batch = 4});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({.tp = 2}),
            "unit 'net' is a module that tp 2 cannot split; split its layers by "
            "parallelize_module() instead, or set tp to 1");
  EXPECT_EQ(refusal({.cp = 2}),
            "unit 'net' is a module that cp 2 cannot split; set cp to 1, or write a unit whose "
            "attention obeys Pass::context");
}

// Its weight gradients would be twice as large.
TEST(Compose, RefusesToRecomputeAModuleWhoseWeightGradientsComeLater) {
  const World world = World::connect(LaunchInfo{}, {});
  const Model model = model_of({module_unit("first", torch::nn::Linear(3, 3)),
                                module_unit("second", torch::nn::Linear(3, 3))},
                               [](const at::Tensor& y, const at::Tensor&) { return y.mean(); });
  const auto refusal = [&](const char* table, Recompute recompute) {
    const Schedule schedule = parse_schedule_csv(table, "own table");
    try {
      compose(model, realize(train_plan(1, {}), world),
              {.batch = 4, .schedule = schedule, .recompute = recompute});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("0F0,1F0,1I0,1W0,0B0", Recompute::kFull),
            "unit 'second' computes all gradients at once, so it cannot be recomputed in schedule "
            "'own table', which computes weight gradients later; choose a schedule without I and "
            "W, e.g. 1f1b, or leave recompute out");
  EXPECT_EQ(refusal("0F0,1F0,1I0,1W0,0B0", Recompute::kNone), "");
  EXPECT_EQ(refusal("0F0,1F0,1B0,0I0,0W0", Recompute::kFull), "") << "W does it all";
}

TEST(Compose, RefusesToRecordStepsThatDiffer) {
  const auto refusal = [&](int64_t ranks, Recompute recompute, bool routes) {
    const World world = World::fake(GlobalRank{0}, ranks);
    Model model = model_of({module_unit("net", torch::nn::Linear(3, 3))},
                           [](const at::Tensor& y, const at::Tensor&) { return y.mean(); });
    if (routes) model.balance = BalanceOptions{.layers = 1, .experts = 2, .top_k = 1};
    try {
      compose(model, realize(train_plan(ranks, {.dp_replicate = ranks}), world),
              {.batch = 4, .recompute = recompute, .graphs = true});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(2, Recompute::kNone, false),
            "CUDA graphs are for one rank, but there are 2; leave them out");
  EXPECT_EQ(refusal(1, Recompute::kNone, true),
            "CUDA graphs cannot record routers of experts; leave them out");
  EXPECT_NE(refusal(1, Recompute::kFull, false).find("cannot record recompute"), std::string::npos);
  EXPECT_NE(refusal(1, Recompute::kNone, false).find("CUDA graphs need a GPU"), std::string::npos);
}

TEST(Compose, RefusesMoreSlicesThanRows) {
  EXPECT_THROW(Line().engine(6).train_step(kInputs, kTargets), ConfigError);
}

// Two batches of two rows, with three and with one target that count.
class RaggedBatches final : public BatchSource {
 public:
  int64_t batch() const override { return 2; }
  BatchTensors rows(int64_t step, Span rows) const override {
    const at::Tensor inputs = at::arange(6, at::kDouble).view({2, 3}) + step;
    at::Tensor targets = at::zeros({2, 3}, at::kDouble).fill_(-100);
    targets.view(-1).narrow(0, 1, step == 0 ? 3 : 1).fill_(2);
    return {inputs.slice(0, rows.begin, rows.end), targets.slice(0, rows.begin, rows.end)};
  }
};

TEST(Compose, TheLossIsAMeanOverTheTargetsThatCount) {
  const World world = World::connect(LaunchInfo{}, {});
  const at::Tensor factor = at::ones({1}, at::kDouble).requires_grad_();
  Model model =
      model_of({{.name = "factor",
                 .parameters = {{"factor", factor}},
                 .forward = [factor](const at::Tensor& x, const Pass&) { return x * factor; }}},
               [](const at::Tensor& y, const at::Tensor& target) {
                 return (y - target).square().masked_fill(target == -100, 0).mean();
               });
  model.ignored_target = -100;
  Engine engine =
      compose(model, realize(train_plan(1, {}), world), {.batch = 2, .schedule = one_rank(2)});
  const RaggedBatches batches;
  // Inputs 1, 2, 3 and then 2, each with target 2.
  const BatchTensors first = batches.rows(0, {0, 2});
  EXPECT_DOUBLE_EQ(engine.counted_share(first.targets), 0.5);
  EXPECT_DOUBLE_EQ(engine.train_step(first.inputs, first.targets).item<double>(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(factor.grad().item<double>(), (-2.0 + 0 + 6) / 3);
  EXPECT_DOUBLE_EQ(mean_loss(engine, batches, 2), 2.0 / 4);
}

}  // namespace
}  // namespace tessera

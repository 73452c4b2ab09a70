// Training over several steps on a pipeline's ranks, with LibTorch's optimizers and modules.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "tessera/base/text.h"
#include "tessera/parallel/pipeline/module_stage.h"
#include "tests/ranks/pipeline_parts.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::make_parts;
using testkit::Parts;
using testkit::run_ranks;

constexpr int64_t kSteps = 6;
constexpr int64_t kRows = 11;

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensors&)>;

std::unique_ptr<torch::optim::Optimizer> sgd(const Tensors& parameters) {
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(0.1).momentum(0.9));
}
std::unique_ptr<torch::optim::Optimizer> adamw(const Tensors& parameters) {
  return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(0.01));
}

Tensors parameters_of(const Parts& parts, const std::vector<int64_t>& stages) {
  Tensors all;
  for (const int64_t stage : stages) {
    for (const at::Tensor& one : parts[static_cast<size_t>(stage)].parameters()) all.push_back(one);
  }
  return all;
}

std::vector<int64_t> all_stages(const Parts& parts) {
  std::vector<int64_t> stages;
  for (size_t i = 0; i < parts.size(); ++i) stages.push_back(static_cast<int64_t>(i));
  return stages;
}

/// The batch of a step; different for each step.
at::Tensor batch_of(int64_t step, int64_t kind, at::ScalarType dtype) {
  return testkit::values(1000 * kind + step, {kRows, testkit::kWidth}, dtype);
}

struct Trained {
  std::vector<double> losses;
  Tensors parameters;
};

Trained train_alone(int64_t num_stages, const std::vector<int64_t>& wanted, at::ScalarType dtype,
                    const MakeOptimizer& make_optimizer) {
  const Parts parts = make_parts(num_stages, dtype);
  const auto optimizer = make_optimizer(parameters_of(parts, all_stages(parts)));
  Trained trained;
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    const at::Tensor output = testkit::forward_all(parts, batch_of(step, 1, dtype));
    const at::Tensor loss = testkit::loss_of(output, batch_of(step, 2, dtype));
    loss.backward();
    optimizer->step();
    trained.losses.push_back(loss.item<double>());
  }
  trained.parameters = parameters_of(parts, wanted);
  return trained;
}

Trained train_on_ranks(World& world, const Schedule& schedule, at::ScalarType dtype,
                       const MakeOptimizer& make_optimizer) {
  const GroupRank rank{world.rank().value};
  const Parts parts = make_parts(schedule.num_stages(), dtype);
  Pipeline pipeline(testkit::stages_of(parts, schedule, rank), schedule, world.group(),
                    {.loss = testkit::loss_of_stage, .device = testkit::device()});
  Trained trained{.losses = {}, .parameters = parameters_of(parts, schedule.stages_of(rank))};
  const auto optimizer = make_optimizer(trained.parameters);
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    const PipelineResult result = pipeline.step(
        {.inputs = {batch_of(step, 1, dtype)}, .target = batch_of(step, 2, dtype), .step = step});
    optimizer->step();
    trained.losses.push_back(pipeline.share_loss(result).item<double>());
  }
  return trained;
}

struct Tolerances {
  double losses;
  double parameters;
};

void check_training(World& world, ScheduleKind kind, at::ScalarType dtype,
                    const MakeOptimizer& make_optimizer, const Tolerances& tolerances) {
  const int64_t pp = world.size();
  const Schedule schedule = make_schedule({.kind = kind, .pp = pp, .microbatches = 2 * pp}, {});
  const auto mine = schedule.stages_of(GroupRank{world.rank().value});
  const Trained wanted = train_alone(schedule.num_stages(), mine, dtype, make_optimizer);
  const Trained found = train_on_ranks(world, schedule, dtype, make_optimizer);
  RANK_EXPECT(wanted.losses.front() > 1.1 * wanted.losses.back()) << "nothing was learned";
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    RANK_EXPECT(std::abs(found.losses[i] - wanted.losses[i]) <= tolerances.losses)
        << to_string(kind) << ", step " << i << ": " << found.losses[i] - wanted.losses[i];
  }
  for (size_t i = 0; i < wanted.parameters.size(); ++i) {
    RANK_EXPECT(at::allclose(found.parameters[i], wanted.parameters[i], 0, tolerances.parameters))
        << to_string(kind) << ": " << (found.parameters[i] - wanted.parameters[i]).abs().max();
  }
}

void check_all_training(int64_t world_size) {
  run_ranks(world_size, [](World& world) {
    for (const ScheduleKind kind : testkit::kAllKinds) {
      check_training(world, kind, at::kDouble, sgd, {1e-12, 1e-12});
      check_training(world, kind, at::kDouble, adamw, {1e-11, 1e-11});
      check_training(world, kind, at::kFloat, sgd, {1e-6, 1e-6});
      check_training(world, kind, at::kFloat, adamw, {1e-5, 1});  // Signs of tiny gradients differ.
    }
  });
}

TEST(PipelineTraining, EqualsOneProcessOnTwoRanks) {
  check_all_training(2);
}
TEST(PipelineTraining, EqualsOneProcessOnFourRanks) {
  check_all_training(4);
}

TEST(PipelineTraining, ModulesAreStages) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(7);  // Both ranks make both modules; each runs one.
    torch::nn::Linear first(4, 5);
    torch::nn::Linear second(5, 2);
    first->to(testkit::device());
    second->to(testkit::device());
    const bool is_first = world.rank().value == 0;
    const Schedule schedule = generate({.pp = 2, .microbatches = 3});
    const std::vector<Stage> stages{is_first ? module_stage(0, first) : module_stage(1, second)};
    Pipeline pipeline(stages, schedule, world.group(),
                      {.loss = testkit::loss_of_stage, .device = testkit::device()});
    const at::Tensor x = testkit::values(1, {7, 4}, at::kFloat);
    const at::Tensor y = testkit::values(2, {7, 2}, at::kFloat);
    pipeline.step({.inputs = {x}, .target = y});
    const at::Tensor weight = is_first ? first->weight : second->weight;
    const at::Tensor found = weight.grad().clone();
    first->zero_grad();
    second->zero_grad();
    testkit::loss_of(second->forward(first->forward(x)), y).backward();
    RANK_EXPECT(at::allclose(found, weight.grad(), 0, 1e-6));
  });
}

}  // namespace
}  // namespace tessera

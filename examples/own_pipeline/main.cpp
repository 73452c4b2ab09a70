// Your own torch::nn::Sequential as a pipeline over all ranks, with your own data:
//
//   tessera run --nproc 3 -- own_pipeline
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <iostream>

#include "tessera/base/error.h"
#include "tessera/layer/module_unit.h"
#include "tessera/optim/adamw.h"
#include "tessera/plan/train_plan.h"
#include "tessera/schedule/choose.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/compose.h"
#include "tessera/train/trainer.h"

using namespace tessera;

// Points on a wave: y = sin(3·x). Each step has different points, the same on all ranks.
class Wave final : public BatchSource {
 public:
  int64_t batch() const override { return 64; }
  BatchTensors rows(int64_t step, Span rows) const override {
    torch::manual_seed(static_cast<uint64_t>(step));
    const at::Tensor x = at::rand({batch(), 1}).mul(2).sub(1).slice(0, rows.begin, rows.end);
    return {.inputs = x, .targets = at::sin(3 * x)};
  }
};

torch::nn::Sequential make_net() {
  using torch::nn::Linear, torch::nn::Tanh;
  return torch::nn::Sequential(Linear(1, 32), Tanh(), Linear(32, 32), Tanh(), Linear(32, 32),
                               Tanh(), Linear(32, 1));
}

at::Tensor loss(const at::Tensor& y, const at::Tensor& target) {
  return torch::nn::functional::mse_loss(y, target);
}

void run() {
  World world = World::connect();
  const Plan plan = train_plan(world.size(), {.pp = world.size()});
  const Schedule schedule =
      choose_schedule({.word = "1f1b", .pp = world.size(), .microbatches = 2 * world.size()});
  Engine engine = compose(model_of(sequential_units(make_net()), loss), realize(plan, world),
                          {.batch = 64, .schedule = schedule});
  AdamW optimizer(engine.parameters(), {.weight_decay = 0});

  const auto tell = [&](const StepMetrics& metrics) {
    if (world.rank() == GlobalRank{0} && metrics.step % 50 == 0) {
      std::cout << "step " << metrics.step << "  loss " << metrics.loss << "\n";
    }
  };
  train({.steps = 301, .learning_rate = {.peak = 1e-2}}, engine, Wave(), optimizer,
        {.after_step = tell});
  world.close();
}

int main() {
  try {
    torch::manual_seed(0);
    run();
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

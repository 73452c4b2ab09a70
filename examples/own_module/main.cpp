// Your own module, written with LibTorch alone. Tessera's loop trains it to predict the next byte
// of a text, with data parallelism if there are several ranks:
//
//   own_module README.md
//   tessera run --nproc 2 -- own_module README.md
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <iostream>

#include "tessera/base/error.h"
#include "tessera/layer/module_unit.h"
#include "tessera/layer/tokens.h"
#include "tessera/optim/adamw.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/compose.h"
#include "tessera/train/trainer.h"

using namespace tessera;

struct Net : torch::nn::Module {
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(256, 32));
  torch::nn::GRU memory =
      register_module("memory", torch::nn::GRU(torch::nn::GRUOptions(32, 64).batch_first(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(64, 256));

  // [rows, positions] → [rows, positions, 256]
  at::Tensor forward(const at::Tensor& bytes) {
    const auto [states, last] = memory->forward(embedding->forward(bytes));
    return head->forward(states);
  }
};

void run(const std::string& path) {
  const auto net = std::make_shared<Net>();
  const auto [text, held_out] = TokenData({.paths = {path}}).split(0.2);
  const BatchOptions batch{.batch = 16, .seq = 64};

  World world = World::connect();
  const Plan plan = train_plan(world.size(), {.dp_replicate = world.size()});
  Engine engine = compose(model_of({module_unit("net", net)}, token_loss), realize(plan, world),
                          {.batch = batch.batch});
  AdamW optimizer(engine.parameters());

  const LearningRate rate{
      .kind = LearningRateKind::kCosine, .peak = 1e-2, .warmup = 10, .steps = 150};
  const bool tells = world.rank() == GlobalRank{0};
  const auto tell = [&](const StepMetrics& metrics) {
    if (!tells || metrics.step % 25 != 0) return;
    std::cout << "step " << metrics.step << "  loss " << metrics.loss << "  gradient "
              << metrics.grad_norm << "\n";
  };
  train({.steps = rate.steps, .learning_rate = rate, .clip = 1}, engine,
        TokenBatches(Batches(text, batch)), optimizer, {.after_step = tell});
  const double loss = mean_loss(engine, TokenBatches(Batches(held_out, batch)), 1);
  if (tells) std::cout << "held out  loss " << loss << "\n";
  world.close();
}

int main(int count, char** arguments) {
  try {
    torch::manual_seed(0);
    run(count > 1 ? arguments[1] : "README.md");
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

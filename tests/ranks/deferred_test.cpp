// A user's module that is built without memory, sharded and filled: no rank ever allocates more
// than its shards and the units that it computes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>

#include "tessera/hook/deferred.h"
#include "tessera/layer/module_unit.h"
#include "tessera/optim/sgd.h"
#include "tessera/parallel/fsdp/fully_shard.h"
#include "tessera/plan/train_plan.h"
#include "tessera/tensor/random.h"
#include "tessera/train/compose.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

namespace nn = torch::nn;
using testkit::LiveMemory;
using testkit::run_ranks;

constexpr int64_t kWidth = 256;
constexpr int64_t kLayers = 8;

nn::Sequential make_net() {
  nn::Sequential net;
  for (int64_t i = 0; i < kLayers; ++i) net->push_back(nn::Linear(kWidth, kWidth));
  net->to(at::kDouble);
  return net;
}

// Values that do not depend on the layout.
void fill(const Parameters& parameters) {
  for (const Parameter& parameter : parameters) {
    parameter.tensor.set_data(at::empty_like(parameter.tensor));
    init_(parameter.tensor, parameter.place.part.spans(), {.seed = 3, .name = parameter.name},
          Normal{.std = 0.05});
  }
}

at::Tensor rows() {
  return torch::linspace(-1, 1, 4 * kWidth, at::kDouble).view({4, kWidth});
}

at::Tensor loss_of(const at::Tensor& y, const at::Tensor& /*target*/) {
  return y.square().mean();
}

constexpr int64_t kBytes = kLayers * (kWidth + 1) * kWidth * 8;

// Some steps of gradient descent on this rank's rows.
void train(const Parameters& parameters, const std::function<void(const at::Tensor&)>& backward,
           const Span& own) {
  Sgd optimizer(parameters, {});
  for (int64_t step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    backward(rows().slice(0, own.begin, own.end));
    optimizer.step(0.1);
  }
}

std::map<std::string, at::Tensor> trained_alone() {
  nn::Sequential net = build_deferred(make_net);
  const Parameters parameters = listed_parameters(net->named_parameters());
  fill(parameters);
  train(parameters, [&](const at::Tensor& x) { loss_of(net->forward(x), {}).backward(); }, {0, 4});
  std::map<std::string, at::Tensor> values;
  for (const Parameter& parameter : parameters) values[parameter.name] = parameter.tensor;
  return values;
}

void expect_trained(const Parameters& shards) {
  const auto expected = trained_alone();
  for (const Parameter& parameter : shards) {
    const Span part = parameter.place.part.elements();
    const at::Tensor values =
        expected.at(parameter.name).detach().reshape(-1).slice(0, part.begin, part.end);
    RANK_EXPECT(parameter.tensor.detach().allclose(values, 1e-12, 1e-12)) << parameter.name;
  }
}

void check_composed(const World& world) {
  const int64_t before = LiveMemory::watch().bytes();
  const nn::Sequential net = build_deferred(make_net);
  Model model = model_of(sequential_units(net), loss_of);
  model.fill = fill;
  Engine engine = compose(model, realize(train_plan(2, {.dp_shard = 2}), world), {.batch = 4});
  const int64_t taken = LiveMemory::watch().bytes() - before;
  RANK_EXPECT(taken < kBytes * 6 / 10) << taken << " of " << kBytes;
  train(engine.parameters(), [&](const at::Tensor& x) { engine.train_step(x, x); }, engine.rows());
  expect_trained(engine.parameters());
}

void check_fully_sharded(const World& world) {
  const int64_t before = LiveMemory::watch().bytes();
  nn::Sequential net = build_deferred(make_net);
  const DeviceMesh mesh(world, Layout::row_major({{"dp", world.size()}}));
  const ShardedModule sharded = fully_shard(*net, mesh, {.units = {"*"}, .fill = fill});
  const int64_t taken = LiveMemory::watch().bytes() - before;
  RANK_EXPECT(taken < kBytes * 6 / 10) << taken << " of " << kBytes;
  const int64_t first = 2 * world.rank().value;
  train(sharded.parameters(), [&](const at::Tensor& x) { loss_of(net->forward(x), {}).backward(); },
        {first, first + 2});
  expect_trained(sharded.parameters());
}

TEST(DeferredModule, IsShardedBeforeItHasMemory) {
  run_ranks(2, [](World& world) {
    check_composed(world);
    check_fully_sharded(world);
  });
}

}  // namespace
}  // namespace tessera

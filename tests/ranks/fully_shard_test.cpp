// A module that knows nothing of Tessera, sharded over real ranks, compared with itself in one
// process.
#include "tessera/parallel/fsdp/fully_shard.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::message_of;
using testkit::run_ranks;

constexpr int64_t kRows = 12;  // Of a batch; 2, 3 and 4 ranks share them evenly.
constexpr int kSteps = 10;
// The same sums in another order, over ten steps.
constexpr double kExact = 1e-12;

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(std::vector<int64_t>{width}))),
        up(register_module("up", torch::nn::Linear(width, 2 * width + 1))),
        down(register_module("down", torch::nn::Linear(2 * width + 1, width))) {}
  at::Tensor forward(const at::Tensor& x) {
    return x + down->forward(at::gelu(up->forward(norm->forward(x))));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

// One block runs twice, the head shares the embedding's weight, a scale is frozen, and a module is
// not used. The sizes divide by nothing.
struct Net : torch::nn::Module {
  static constexpr int64_t kWidth = 5;
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(11, kWidth));
  torch::nn::ModuleList layers = register_module("layers", torch::nn::ModuleList());
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(3, 3));
  at::Tensor scale = register_parameter("scale", at::full({kWidth}, 1.5), false);
  at::Tensor bias = register_parameter("bias", at::zeros({11}));

  Net() {
    for (int i = 0; i < 3; ++i) layers->push_back(Block(kWidth));
    to(testkit::device());
    to(at::kDouble);
    // Other values on each rank would do, too: the first rank's count.
    int64_t seed = 0;
    for (const at::Tensor& parameter : parameters()) {
      if (!parameter.requires_grad()) continue;
      const at::NoGradGuard no_grad;
      parameter.copy_(at::arange(parameter.numel(), parameter.options())
                          .mul(++seed)
                          .sin()
                          .view_as(parameter)
                          .mul(0.4));
    }
  }
  void replace_bias(const at::Tensor& tensor) {
    bias = tensor;
    parameters_["bias"] = tensor;
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = embedding->forward(tokens) * scale.to(embedding->weight.scalar_type());
    for (const size_t layer : {0, 1, 0, 2}) x = layers[layer]->as<Block>()->forward(x);
    return at::linear(x, embedding->weight, bias);
  }
};

at::Tensor tokens(int step) {
  return at::arange(step, step + kRows * 3, testkit::here(at::kLong))
      .mul(7)
      .remainder(11)
      .view({kRows, 3});
}

at::Tensor loss_of(Net& net, const at::Tensor& given) {
  const at::Tensor logits = net.forward(given).to(at::kDouble);
  const at::Tensor target = given.add(1).remainder(11);
  return at::cross_entropy_loss(logits.view({-1, 11}), target.view(-1));
}

struct Trained {
  std::vector<double> losses = {};
  std::vector<double> norms = {};
};

struct Reference {
  std::shared_ptr<Net> net = std::make_shared<Net>();
  Trained trained = {};
};

// Without the library's sharding.
Reference train_alone() {
  Reference alone;
  Parameters parameters;
  for (const auto& item : alone.net->named_parameters()) {
    parameters.push_back({item.key(), item.value()});
  }
  AdamW optimizer(parameters);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(*alone.net, tokens(step));
    loss.backward();
    alone.trained.losses.push_back(loss.item<double>());
    alone.trained.norms.push_back(clip_grad_norm_(parameters, 0.5));
    optimizer.step(0.01);
  }
  return alone;
}

at::Tensor mean_over(const at::Tensor& loss, const World& world) {
  return all_reduce(loss.detach().to(world.device()) / world.size(), world.group()).wait();
}

// `slices` per step: all but the last without reduction, unless each is reduced.
Trained train(Net& net, const ShardedModule& sharded, const World& world, int64_t slices,
              bool each_reduces) {
  Trained trained;
  AdamW optimizer(sharded.parameters());
  const int64_t rows = kRows / world.size();
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor mine = tokens(step).narrow(0, world.rank().value * rows, rows);
    at::Tensor sum = at::zeros({}, testkit::here(at::kDouble));
    for (int64_t i = 0; i < slices; ++i) {
      std::optional<NoSync> held;
      if (i + 1 < slices && !each_reduces) held.emplace(sharded.no_sync());
      const at::Tensor loss =
          loss_of(net, mine.narrow(0, i * rows / slices, rows / slices)) / slices;
      loss.backward();
      sum += loss.detach();
    }
    trained.losses.push_back(mean_over(sum, world).item<double>());
    trained.norms.push_back(clip_grad_norm_(sharded.parameters(), 0.5, sharded.shards()));
    optimizer.step(0.01);
  }
  return trained;
}

double largest_error(const std::vector<double>& a, const std::vector<double>& b) {
  return (at::tensor(a) - at::tensor(b)).abs().max().item<double>();
}

// The largest difference of this rank's elements.
double error_of(const Parameters& own, const Net& whole) {
  const auto expected = whole.named_parameters();
  double error = 0;
  for (const Parameter& parameter : own) {
    const Span run = parameter.place.part.elements();
    const at::Tensor part =
        expected[parameter.name].detach().reshape(-1).slice(0, run.begin, run.end);
    error = std::max(
        error, (parameter.tensor.detach().to(part.device()) - part).abs().max().item<double>());
  }
  return error;
}

struct Case {
  std::vector<std::string> units = {"layers.*"};
  FsdpOptions fsdp = {};
  int64_t slices = 1;
  bool each_reduces = false;
};

DeviceMesh flat_mesh(const World& world) {
  return init_device_mesh(world, {world.size()}, {"dp"});
}

void check_case(const World& world, const DeviceMesh& mesh, const Case& c, const Reference& alone,
                double tolerance = kExact) {
  const auto net = std::make_shared<Net>();
  const ShardedModule sharded = fully_shard(*net, mesh, {.units = c.units, .fsdp = c.fsdp});
  const Trained trained = train(*net, sharded, world, c.slices, c.each_reduces);
  const std::string text = concat("units ", join(c.units, " "), ", policy ",
                                  static_cast<int>(c.fsdp.reshard), ", ", c.slices, " slices");
  RANK_EXPECT(largest_error(trained.losses, alone.trained.losses) < tolerance) << text;
  RANK_EXPECT(largest_error(trained.norms, alone.trained.norms) < tolerance) << text;
  const double error = error_of(sharded.parameters(), *alone.net);
  RANK_EXPECT(error < tolerance) << text << ": " << error;
}

void check_policies(const World& world) {
  const DeviceMesh mesh = flat_mesh(world);
  const Reference alone = train_alone();
  using enum Reshard;
  for (const Reshard policy : {kAlways, kAllButLast, kNever, kKeep, kToSmaller}) {
    const FsdpOptions fsdp{.reshard = policy, .smaller = world.size() == 4 ? 2 : 1};
    check_case(world, mesh, {.fsdp = fsdp}, alone);
    check_case(world, mesh, {.units = {"embedding", "layers.*", "layers.*.up"}, .fsdp = fsdp},
               alone);
  }
  check_case(world, mesh, {.units = {}}, alone);
  check_case(world, mesh, {.fsdp = {.offload = true}}, alone);
  if (kRows / world.size() % 3 != 0) return;
  for (const bool each : {false, true}) {
    check_case(world, mesh, {.slices = 3, .each_reduces = each}, alone);
  }
}

TEST(FullyShard, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) { check_policies(world); });
}

TEST(FullyShard, ThreeRanksTrainAsOneProcess) {
  run_ranks(3, [](World& world) { check_policies(world); });
}

TEST(FullyShard, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    check_policies(world);
    const DeviceMesh replicas = init_device_mesh(world, {2, 2}, {"replicate", "shard"});
    check_case(world, replicas, {}, train_alone());
  });
}

// Parameters and gradients of 16 bits: each product has a relative error of 2^-9, and a sum of
// gradients in bf16 would have the same; the shards and the sums have 53 bits.
TEST(FullyShard, MixedPrecisionIsAsGoodAsItsPrecision) {
  run_ranks(2, [](World& world) {
    const Reference alone = train_alone();
    const FsdpOptions single{.compute_dtype = at::kFloat, .reduce_dtype = at::kDouble};
    const FsdpOptions half{.compute_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
    // AdamW's first steps have the size of the rate, 0.01, whatever a gradient's size: where a
    // gradient is near zero, its sign is a matter of rounding.
    check_case(world, flat_mesh(world), {.fsdp = single, .slices = 3}, alone, 1e-4);
    check_case(world, flat_mesh(world), {.fsdp = half, .slices = 3}, alone, 5e-2);
  });
}

TEST(FullyShard, EvaluatesSavesAndRunsAgain) {
  run_ranks(2, [](World& world) {
    const auto net = std::make_shared<Net>();
    const Net plain;
    const ShardedModule sharded = fully_shard(*net, flat_mesh(world), {.units = {"layers.*"}});
    RANK_EXPECT(sharded.units() ==
                std::vector<std::string>{"", "layers.0", "layers.1", "layers.2"});
    for (int pass = 0; pass < 3; ++pass) {
      const at::NoGradGuard no_grad;
      Net whole;
      RANK_EXPECT(at::allclose(loss_of(*net, tokens(0)), loss_of(whole, tokens(0)), 1e-14));
    }
    sharded.unshard();
    for (const auto& item : plain.named_parameters()) {
      RANK_EXPECT(net->named_parameters()[item.key()].equal(item.value())) << item.key();
    }
    if (world.rank() == GlobalRank{0}) {
      RANK_EXPECT(net->bias.norm().item<double>() >= 0) << "now a read is local";
    }
    sharded.reshard();
    loss_of(*net, tokens(1)).backward();
    RANK_EXPECT(sharded.parameters().back().tensor.grad().defined());
    // Two losses of one forward pass.
    const at::Tensor before = sharded.parameters().back().tensor.grad().clone();
    const at::Tensor loss = loss_of(*net, tokens(1));
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    RANK_EXPECT(at::allclose(sharded.parameters().back().tensor.grad(), before * 3, 1e-12));
  });
}

// Each error is the same on both ranks; the one that knows of it alone is rank 1.
TEST(FullyShard, RefusesAlikeOnAllRanks) {
  run_ranks(2, [](World& world) {
    const DeviceMesh mesh = flat_mesh(world);
    const bool is_odd = world.rank() == GlobalRank{1};
    const auto refused = [&](const auto& given, const FullyShardOptions& options = {}) {
      return message_of<ConfigError>([&] { (void)fully_shard(*given, mesh, options); });
    };
    // A mesh that does not fit.
    const DeviceMesh cube = init_device_mesh(world, {1, 1, 2}, {"a", "b", "c"});
    const std::string axes =
        message_of<ConfigError>([&] { (void)fully_shard(*std::make_shared<Net>(), cube); });
    RANK_EXPECT(contains(axes, "one axis (shards) or two")) << axes;
    const std::string smaller =
        refused(std::make_shared<Net>(), {.fsdp = {.reshard = Reshard::kToSmaller, .smaller = 3}});
    RANK_EXPECT(contains(smaller, "choose a divisor of 2")) << smaller;
    // A pattern without a module.
    const std::string pattern =
        refused(std::make_shared<Net>(), {.units = {is_odd ? "layer.*" : "layers.*"}});
    RANK_EXPECT(contains(pattern, "rank 1 no module is named 'layer.*'")) << pattern;
    // Another module on one rank.
    const auto other = std::make_shared<Net>();
    if (is_odd) other->register_parameter("extra", at::zeros({3}, testkit::here()));
    const std::string differs = refused(other);
    RANK_EXPECT(contains(differs, "the sharded models differ on the ranks")) << differs;
    RANK_EXPECT(contains(differs, "'extra' of shape (3)")) << differs;
    // Sharded twice: as a whole, and a part of it on one rank.
    const auto net = std::make_shared<Net>();
    const ShardedModule sharded = fully_shard(*net, mesh, {.units = {"layers.*"}});
    const std::string again = refused(net);
    RANK_EXPECT(contains(again, "each parameter can be sharded once")) << again;
    RANK_EXPECT(contains(again, "'scale', which is sharded already")) << again;
    const std::string part = refused(is_odd ? net : std::make_shared<Net>());
    RANK_EXPECT(contains(part, "each parameter can be sharded once")) << part;
    // Replaced on one rank.
    const at::Tensor kept = net->bias;
    if (is_odd) net->replace_bias(at::zeros({11}, testkit::here(at::kDouble)));
    const std::string replaced =
        message_of<ConfigError>([&] { loss_of(*net, tokens(0)).backward(); });
    RANK_EXPECT(contains(replaced, "parameters were changed after fully_shard()")) << replaced;
    RANK_EXPECT(contains(replaced, "'bias' is another tensor")) << replaced;
    if (is_odd) net->replace_bias(kept);
    // All of them replaced, so that nothing reads a sharded parameter.
    const auto converted = std::make_shared<Net>();
    const ShardedModule lost = fully_shard(*converted, mesh, {.units = {"layers.*"}});
    converted->to(at::kFloat);
    const std::string all =
        message_of<ConfigError>([&] { loss_of(*converted, tokens(0)).backward(); });
    RANK_EXPECT(contains(all, "parameters were changed after fully_shard()")) << all;
    // Changed between forward and backward.
    AdamW optimizer(sharded.parameters());
    loss_of(*net, tokens(0)).backward();
    const at::Tensor loss = loss_of(*net, tokens(0));
    optimizer.step(0.1);
    const std::string changed = message_of<StateError>([&] { loss.backward(); });
    RANK_EXPECT(contains(changed, "have changed between a forward pass and the backward pass"))
        << changed;
    // And the module still trains.
    optimizer.zero_grad();
    loss_of(*net, tokens(0)).backward();
    RANK_EXPECT(std::isfinite(clip_grad_norm_(sharded.parameters(), 1, sharded.shards())));
  });
}

}  // namespace
}  // namespace tessera

// Modules that know nothing of Tessera, split over real ranks, compared with themselves in one
// process.
#include "tessera/parallel/tensor/parallelize_module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <functional>

#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/parallel/fsdp/fully_shard.h"
#include "tests/ranks/tensor_parts.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

namespace nn = torch::nn;
using testkit::kTolerance;
using testkit::largest_difference;
using testkit::run_ranks;

constexpr int64_t kRows = 4;
constexpr int64_t kPositions = 12;
constexpr int64_t kWidth = 24;   // 12 heads of 2: 2, 3 and 4 ranks share them evenly.
constexpr int64_t kHidden = 49;  // Divides by nothing.
constexpr int64_t kVocabulary = 11;
constexpr int kSteps = 10;

nn::LayerNorm make_norm() {
  return nn::LayerNorm(std::vector<int64_t>{kWidth});
}

// Attention as one writes it: the number of heads follows from the width of the products.
struct AttentionImpl : nn::Module {
  static constexpr int64_t kHead = 2;
  nn::Linear q = register_module("q", nn::Linear(kWidth, kWidth));
  nn::Linear k = register_module("k", nn::Linear(nn::LinearOptions(kWidth, kWidth).bias(false)));
  nn::Linear v = register_module("v", nn::Linear(kWidth, kWidth));
  nn::Linear o = register_module("o", nn::Linear(kWidth, kWidth));

  at::Tensor forward(const at::Tensor& x) {
    const auto heads = [](const at::Tensor& y) {
      return y.view({y.size(0), y.size(1), -1, kHead}).transpose(1, 2);
    };
    const at::Tensor y = at::scaled_dot_product_attention(
        heads(q->forward(x)), heads(k->forward(x)), heads(v->forward(x)), {}, 0, true);
    return o->forward(y.transpose(1, 2).flatten(2));
  }
};
TORCH_MODULE(Attention);

// A norm of one's own: no operator of its own reads its weight.
struct ScaleNormImpl : nn::Module {
  at::Tensor weight = register_parameter("weight", at::ones({kWidth}));
  at::Tensor forward(const at::Tensor& x) { return x / x.norm(2, -1, true) * weight; }
};
TORCH_MODULE(ScaleNorm);

struct BlockImpl : nn::Module {
  nn::LayerNorm norm1 = register_module("norm1", make_norm());
  Attention attention = register_module("attention", Attention());
  ScaleNorm norm2 = register_module("norm2", ScaleNorm());
  nn::Linear up = register_module("up", nn::Linear(kWidth, kHidden));
  nn::Linear down = register_module("down", nn::Linear(kHidden, kWidth));

  at::Tensor forward(at::Tensor x) {
    x = x + attention->forward(norm1->forward(x));
    return x + down->forward(at::gelu(up->forward(norm2->forward(x))));
  }
};
TORCH_MODULE(Block);

struct Net : nn::Module {
  bool is_tied;
  nn::Embedding embedding = register_module("embedding", nn::Embedding(kVocabulary, kWidth));
  nn::ModuleList layers = register_module("layers", nn::ModuleList());
  nn::LayerNorm norm = register_module("norm", make_norm());
  nn::Linear head = nullptr;
  at::Tensor bias;

  explicit Net(bool tied = false) : is_tied(tied) {
    for (int i = 0; i < 2; ++i) layers->push_back(Block());
    if (is_tied) {
      bias = register_parameter("bias", at::zeros({kVocabulary}));
    } else {
      head = register_module("head", nn::Linear(kWidth, kVocabulary));
    }
    to(testkit::device());
    to(at::kDouble);
    int64_t seed = 0;
    for (const at::Tensor& parameter : parameters()) {
      const at::NoGradGuard no_grad;
      parameter.copy_(at::arange(parameter.numel(), parameter.options())
                          .mul(++seed)
                          .sin()
                          .view_as(parameter)
                          .mul(0.4));
    }
  }

  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = embedding->forward(tokens);
    for (const auto& layer : *layers) x = layer->as<Block>()->forward(x);
    x = norm->forward(x);
    return is_tied ? at::linear(x, embedding->weight, bias) : head->forward(x);
  }
};

at::Tensor tokens(int step) {
  return at::arange(step, step + kRows * kPositions, testkit::here(at::kLong))
      .mul(7)
      .remainder(kVocabulary)
      .view({kRows, kPositions});
}

at::Tensor loss_of(Net& net, const at::Tensor& given) {
  const at::Tensor target = given.add(1).remainder(kVocabulary);
  return at::cross_entropy_loss(net.forward(given).view({-1, kVocabulary}), target.view(-1));
}

Parameters parameters_of(const Net& net) {
  Parameters parameters;
  for (const auto& item : net.named_parameters()) parameters.push_back({item.key(), item.value()});
  return parameters;
}

struct Trained {
  std::vector<double> losses = {};
  std::vector<double> norms = {};
};

using Clip = std::function<double()>;

Trained train(Net& net, const Parameters& parameters, const Clip& clip, int64_t first_row = 0,
              int64_t rows = kRows) {
  Trained trained;
  AdamW optimizer(parameters);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(net, tokens(step).narrow(0, first_row, rows));
    loss.backward();
    trained.losses.push_back(loss.item<double>());
    trained.norms.push_back(clip());
    optimizer.step(0.01);
  }
  return trained;
}

struct Reference {
  explicit Reference(bool tied) : net(std::make_shared<Net>(tied)) {
    const Parameters parameters = parameters_of(*net);
    trained = train(*net, parameters, [&] { return clip_grad_norm_(parameters, 0.5); });
  }
  std::shared_ptr<Net> net;
  Trained trained = {};
};

double largest_error(const std::vector<double>& a, const std::vector<double>& b) {
  return (at::tensor(a) - at::tensor(b)).abs().max().item<double>();
}

at::Tensor box_of(at::Tensor whole, const Box& box) {
  for (size_t i = 0; i < box.shape.size(); ++i) {
    whole = whole.narrow(static_cast<int64_t>(i), box.offset[i], box.shape[i]);
  }
  return whole;
}

void check_gradients(const ParallelModule& parallel, Net& net, const std::string& text) {
  Net plain(net.is_tied);
  loss_of(plain, tokens(0)).backward();
  loss_of(net, tokens(0)).backward();
  const auto expected = plain.named_parameters();
  for (const Parameter& parameter : parallel.parameters()) {
    const at::Tensor part = box_of(expected[parameter.name].grad(), parameter.place.part.box());
    const double error = largest_difference(parameter.tensor.grad(), part);
    RANK_EXPECT(error < kTolerance) << text << ", gradient of " << parameter.name << ": " << error;
  }
}

void check_values(const ParallelModule& parallel, const Net& expected, const std::string& text) {
  const auto whole = expected.named_parameters();
  for (const auto& [name, tensor] : parallel.full_parameters()) {
    const double error = largest_difference(tensor, whole[name].detach());
    RANK_EXPECT(error < kTolerance) << text << ", " << name << ": " << error;
  }
}

struct Case {
  std::string text;
  ParallelPlan plan;
  bool is_tied = false;
  bool is_composed = false;  // Also tried with FSDP and DDP.
};

const Shard kSequence{1};

ParallelPlan plain_plan() {
  return {{"embedding", RowwiseParallel{}},
          {"layers.*.attention.[qkv]", ColwiseParallel{}},
          {"layers.*.attention.o", RowwiseParallel{}},
          {"layers.*.up", ColwiseParallel{}},
          {"layers.*.down", RowwiseParallel{}}};
}

ParallelPlan sequence_plan() {
  return {{"embedding", RowwiseParallel{.output_layouts = kSequence}},
          {"layers.*.norm?", SequenceParallel{}},
          {"layers.*.attention", PrepareModuleInput{kSequence, Replicate{}}},
          {"layers.*.attention", PrepareModuleOutput{Replicate{}, kSequence}},
          {"layers.*.attention.[qkv]", ColwiseParallel{}},
          {"layers.*.attention.o", RowwiseParallel{}},
          {"layers.*.up", ColwiseParallel{.input_layouts = kSequence}},
          {"layers.*.down", RowwiseParallel{.output_layouts = kSequence}},
          {"norm", SequenceParallel{}}};
}

ParallelPlan operator+(ParallelPlan plan, const ParallelPlan& more) {
  plan.insert(plan.end(), more.begin(), more.end());
  return plan;
}

std::vector<Case> cases() {
  const ColwiseParallel gathers{.output_layouts = Replicate{}};
  return {
      {"plain", plain_plan() + ParallelPlan{{"head", gathers}}, false, true},
      {"whole head", plain_plan()},
      {"colwise embedding",
       {{"embedding", gathers}, {"head", RowwiseParallel{.input_layouts = Replicate{}}}}},
      {"positions of logits",
       {{"head", ColwiseParallel{.output_layouts = kSequence}},
        {"head", PrepareModuleOutput{kSequence, Replicate{}}}}},
      {"tied", plain_plan(), true},
      {"tied colwise", {{"embedding", gathers}}, true},
      {"sequence",
       sequence_plan() +
           ParallelPlan{{"head", gathers}, {"head", PrepareModuleInput{kSequence, Replicate{}}}}},
      {"sequence, whole head",
       sequence_plan() + ParallelPlan{{"head", PrepareModuleInput{kSequence, Replicate{}}}}},
      {"sequence, last norm gathers",
       sequence_plan() + ParallelPlan{{"norm", PrepareModuleOutput{kSequence, Replicate{}}}}},
      {"sequence, tied", sequence_plan(), true, true},
  };
}

void check_cases(const World& world) {
  const DeviceMesh mesh = init_device_mesh(world, {world.size()}, {"tp"});
  const Reference untied(false), tied(true);
  for (const Case& c : cases()) {
    const Reference& alone = c.is_tied ? tied : untied;
    const auto net = std::make_shared<Net>(c.is_tied);
    const ParallelModule parallel = parallelize_module(*net, mesh, c.plan);
    check_gradients(parallel, *net, c.text);
    const Trained trained = train(*net, parallel.parameters(), [&] {
      return clip_grad_norm_(parallel.parameters(), 0.5, parallel.group());
    });
    RANK_EXPECT(largest_error(trained.losses, alone.trained.losses) < kTolerance) << c.text;
    RANK_EXPECT(largest_error(trained.norms, alone.trained.norms) < kTolerance) << c.text;
    check_values(parallel, *alone.net, c.text);
    const at::NoGradGuard no_grad;
    const double error = std::abs(loss_of(*net, tokens(3)).item<double>() -
                                  loss_of(*alone.net, tokens(3)).item<double>());
    RANK_EXPECT(error < kTolerance) << c.text << ", evaluated: " << error;
  }
}

// Layers on rows instead of positions, fewer outputs than ranks, and a layer of one's own.
struct OwnLinearImpl : nn::Module {
  at::Tensor weight = register_parameter("weight", at::ones({7, 3}));
  at::Tensor forward(const at::Tensor& x) { return at::mm(x, weight.transpose(0, 1)); }
};
TORCH_MODULE(OwnLinear);

struct Narrow : nn::Module {
  nn::Linear first = register_module("first", nn::Linear(5, 3));
  OwnLinear second = register_module("second", OwnLinear());
  nn::Linear third = register_module("third", nn::Linear(7, 2));
  Narrow() {
    to(testkit::device());
    to(at::kDouble);
    testkit::Numbers numbers(1);
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters()) {
      parameter.copy_(numbers.tensor(parameter.sizes()));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    return third->forward(second->forward(first->forward(x).tanh()).tanh());
  }
};

void check_narrow(const World& world) {
  const DeviceMesh mesh = init_device_mesh(world, {world.size()}, {"tp"});
  testkit::Numbers numbers(2);
  const at::Tensor x = numbers.leaf({6, 5});
  const auto plain = std::make_shared<Narrow>();
  plain->forward(x).square().sum().backward();
  const at::Tensor x_gradient = x.grad().clone();
  const ParallelPlan both[] = {
      {{"first", ColwiseParallel{.output_layouts = Replicate{}}},
       {"second", ColwiseParallel{}},
       {"third", RowwiseParallel{}}},
      {{"first", RowwiseParallel{.input_layouts = Replicate{}, .output_layouts = Shard{-1}}},
       {"second", RowwiseParallel{}},
       {"third", ColwiseParallel{.output_layouts = Replicate{}}}}};
  for (const ParallelPlan& plan : both) {
    const auto net = std::make_shared<Narrow>();
    const ParallelModule parallel = parallelize_module(*net, mesh, plan);
    x.mutable_grad() = at::Tensor();
    const at::Tensor y = net->forward(x);
    RANK_EXPECT(largest_difference(y, plain->forward(x)) < kTolerance);
    y.square().sum().backward();
    RANK_EXPECT(largest_difference(x.grad(), x_gradient) < kTolerance);
    const auto expected = plain->named_parameters();
    for (const Parameter& parameter : parallel.parameters()) {
      const at::Tensor part = box_of(expected[parameter.name].grad(), parameter.place.part.box());
      RANK_EXPECT(largest_difference(parameter.tensor.grad(), part) < kTolerance) << parameter.name;
    }
  }
}

TEST(ParallelizeModule, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    check_cases(world);
    check_narrow(world);
  });
}

TEST(ParallelizeModule, ThreeRanksTrainAsOneProcess) {
  run_ranks(3, [](World& world) {
    check_cases(world);
    check_narrow(world);
  });
}

double mean_over(double value, const Group& group) {
  return all_reduce(at::scalar_tensor(value / static_cast<double>(group.size()), at::kDouble),
                    group)
      .wait()
      .item<double>();
}

void check_losses(const Trained& trained, const Reference& alone, const Group& replicas,
                  const std::string& text) {
  for (size_t i = 0; i < trained.losses.size(); ++i) {
    const double loss = mean_over(trained.losses[i], replicas);
    RANK_EXPECT(std::abs(loss - alone.trained.losses[i]) < kTolerance) << text << ", step " << i;
  }
  RANK_EXPECT(largest_error(trained.norms, alone.trained.norms) < kTolerance) << text;
}

// Both meshes are slices of one of 2 x 2.
void check_with_fsdp(const World& world, const DeviceMesh& mesh, const Case& c,
                     const Reference& alone) {
  const auto net = std::make_shared<Net>(c.is_tied);
  const ParallelModule parallel = parallelize_module(*net, mesh["tp"], c.plan);
  const ShardedModule sharded = fully_shard(*net, mesh["dp"], {.units = {"layers.*"}});
  const Parameters shards = parallel.counted_once(sharded.parameters());
  const int64_t row = mesh.get_local_rank("dp").value * kRows / 2;
  const Trained trained = train(
      *net, shards, [&] { return clip_grad_norm_(shards, 0.5, world.group()); }, row, kRows / 2);
  check_losses(trained, alone, mesh.get_group("dp"), concat("fsdp, ", c.text));
  sharded.unshard();
  check_values(parallel, *alone.net, concat("fsdp, ", c.text));
  sharded.reshard();
}

void check_with_ddp(const DeviceMesh& mesh, const Case& c, const Reference& alone) {
  const auto net = std::make_shared<Net>(c.is_tied);
  const ParallelModule parallel = parallelize_module(*net, mesh["tp"], c.plan);
  const Ddp ddp(ddp_tensors(*net), mesh.get_group("dp"));
  const int64_t row = mesh.get_local_rank("dp").value * kRows / 2;
  const Trained trained = train(
      *net, parallel.parameters(),
      [&] { return clip_grad_norm_(parallel.parameters(), 0.5, parallel.group()); }, row,
      kRows / 2);
  check_losses(trained, alone, mesh.get_group("dp"), concat("ddp, ", c.text));
  check_values(parallel, *alone.net, concat("ddp, ", c.text));
}

TEST(ParallelizeModule, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    check_cases(world);
    check_narrow(world);
    const DeviceMesh mesh = init_device_mesh(world, {2, 2}, {"dp", "tp"});
    const Reference untied(false), tied(true);
    for (const Case& c : cases()) {
      const Reference& alone = c.is_tied ? tied : untied;
      if (!c.is_composed) continue;
      check_with_fsdp(world, mesh, c, alone);
      check_with_ddp(mesh, c, alone);
    }
  });
}

}  // namespace
}  // namespace tessera

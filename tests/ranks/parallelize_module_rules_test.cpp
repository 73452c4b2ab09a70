// What parallelize_module() sends, which operators it splits, and what it refuses.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <functional>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/parallel/fsdp/fully_shard.h"
#include "tessera/parallel/recompute/recompute.h"
#include "tessera/parallel/tensor/parallelize_module.h"
#include "tessera/tensor/unallocated.h"
#include "tests/ranks/tensor_parts.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

namespace nn = torch::nn;
using testkit::contains;
using testkit::kTolerance;
using testkit::largest_difference;
using testkit::message_of;
using testkit::run_ranks;

constexpr int64_t kWidth = 4;

struct Net : nn::Module {
  nn::Embedding embedding = register_module("embedding", nn::Embedding(6, kWidth));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear gate = register_module("gate", nn::Linear(kWidth, 6));
  nn::Linear up = register_module("up", nn::Linear(kWidth, 6));
  nn::Linear down = register_module("down", nn::Linear(6, kWidth));
  nn::Conv1d conv = register_module("conv", nn::Conv1d(2, 2, 1));

  Net() {
    to(testkit::device());
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm->forward(x);
    return down->forward(gate->forward(y).sigmoid() * up->forward(y));
  }
};

// A head that shares the embedding's weight under a name of its own.
struct HeadImpl : nn::Module {
  explicit HeadImpl(const at::Tensor& shared) : weight(register_parameter("weight", shared)) {}
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight); }
  at::Tensor weight;
};
TORCH_MODULE(Head);

struct Tied : nn::Module {
  nn::Embedding embedding = register_module("embedding", nn::Embedding(5, kWidth));
  Head head = nullptr;
  Tied() {
    to(testkit::device());
    to(at::kDouble);
    head = register_module("head", Head(embedding->weight));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return head->forward(embedding->forward(tokens).tanh());
  }
};

std::shared_ptr<Net> make_net() {
  return std::make_shared<Net>();
}

DeviceMesh line(const World& world) {
  return init_device_mesh(world, {world.size()}, {"tp"});
}

const Shard kSequence{1};
const ParallelPlan kPlain{
    {"gate", ColwiseParallel{}}, {"up", ColwiseParallel{}}, {"down", RowwiseParallel{}}};
const ParallelPlan kSequencePlan{{"norm", SequenceParallel{}},
                                 {"", PrepareModuleInput{kSequence, Replicate{}}},
                                 {"", PrepareModuleOutput{Replicate{}, kSequence}},
                                 {"gate", ColwiseParallel{}},
                                 {"up", ColwiseParallel{}},
                                 {"down", RowwiseParallel{}}};

at::Tensor own_box(at::Tensor whole, const Parameter& parameter) {
  const Box& box = parameter.place.part.box();
  for (size_t i = 0; i < box.shape.size(); ++i) {
    whole = whole.narrow(static_cast<int64_t>(i), box.offset[i], box.shape[i]);
  }
  return whole;
}

// Both column-parallel layers read one tensor: it is converted once, in each pass.
TEST(ParallelizeModule, SendsOncePerTensor) {
  run_ranks(2, [](World& world) {
    testkit::Numbers numbers(1);
    const auto operations = [&](const ParallelPlan& plan) {
      const auto net = make_net();
      const ParallelModule parallel = parallelize_module(*net, line(world), plan);
      const at::Tensor x = numbers.leaf({2, 4, kWidth});
      const testkit::Traffic traffic(parallel.group());
      const at::Tensor y = net->forward(x);
      const std::string forward = traffic.operations();
      y.sum().backward();
      return std::pair(forward, traffic.operations());
    };
    const auto [forward, both] = operations(kPlain);
    RANK_EXPECT(forward == "all_reduce") << forward;
    RANK_EXPECT(both == "all_reduce all_reduce") << both;
    const auto [sequence, all] = operations(kSequencePlan);
    RANK_EXPECT(sequence == "all_gather reduce_scatter") << sequence;
    // The gradients of both biases of the norm and of the last layer come on top.
    RANK_EXPECT(all ==
                "all_gather reduce_scatter all_reduce all_gather reduce_scatter all_reduce "
                "all_reduce")
        << all;
  });
}

TEST(ParallelizeModule, TakesValuesOfTheFirstRankAndEndsWithItsObject) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(static_cast<uint64_t>(world.rank().value));
    const auto net = make_net();
    {
      const ParallelModule parallel = parallelize_module(*net, line(world), kPlain);
      torch::manual_seed(0);
      const auto first = make_net()->named_parameters();
      for (const auto& [name, tensor] : parallel.full_parameters()) {
        RANK_EXPECT(tensor.equal(first[name].detach())) << name;
      }
      RANK_EXPECT(net->up->weight.sizes() == at::IntArrayRef({3, kWidth}));
      RANK_EXPECT(net->down->weight.sizes() == at::IntArrayRef({kWidth, 3}));
      RANK_EXPECT(net->down->bias.size(0) == kWidth);
    }
    const at::Tensor x = at::ones({2, kWidth}, testkit::here(at::kDouble));
    const testkit::Traffic traffic(world.group());
    RANK_EXPECT(net->up->forward(x).size(1) == 3);
    RANK_EXPECT(traffic.operations().empty()) << "an ordinary layer again";
  });
}

at::Tensor recomputed(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& f) {
  const Unit unit{.name = "part",
                  .forward = [f](const at::Tensor& input, const Pass&) { return f(input); }};
  return recompute(unit, Recompute::kFull).forward(x, {});
}

// A frozen layer, a layer that runs twice, a part that is recomputed, and two losses of one forward
// pass.
TEST(ParallelizeModule, FollowsTheModulesCode) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(7);
    const auto net = make_net();
    torch::manual_seed(7);
    const auto plain = make_net();
    for (const auto& each : {net, plain}) each->gate->weight.set_requires_grad(false);
    const ParallelModule parallel = parallelize_module(*net, line(world), kPlain);
    testkit::Numbers numbers(3);
    const at::Tensor x = numbers.tensor({3, kWidth});
    const auto loss = [&](Net& each) {
      const at::Tensor first = each.up->forward(x);
      const at::Tensor y = x + 1;
      const at::Tensor z =
          each.down->forward(first * each.up->forward(y) + each.gate->forward(y)).tanh();
      return recomputed(z, [&](const at::Tensor& again) { return each.forward(again); })
          .square()
          .sum();
    };
    for (const auto& each : {net, plain}) {
      const at::Tensor value = loss(*each);
      value.backward({}, /*retain_graph=*/true);
      value.backward();
    }
    RANK_EXPECT(largest_difference(loss(*net), loss(*plain)) < kTolerance);
    const auto expected = plain->named_parameters();
    for (const Parameter& parameter : parallel.parameters()) {
      const at::Tensor& whole = expected[parameter.name].grad();
      RANK_EXPECT(whole.defined() == parameter.tensor.grad().defined()) << parameter.name;
      if (!whole.defined()) continue;
      RANK_EXPECT(largest_difference(parameter.tensor.grad(), own_box(whole, parameter)) <
                  kTolerance)
          << parameter.name;
    }
  });
}

// One tensor, two names: it is split once, and each layer follows its own style.
TEST(ParallelizeModule, SplitsASharedTensorOnce) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(5);
    Tied plain;
    torch::manual_seed(5);
    Tied net;
    const ParallelModule parallel =
        parallelize_module(net, line(world),
                           {{"embedding", RowwiseParallel{}},
                            {"head", ColwiseParallel{.output_layouts = Replicate{}}}});
    RANK_EXPECT(parallel.parameters().size() == 1);
    const at::Tensor tokens = at::arange(5, testkit::here(at::kLong)).view({1, 5});
    for (Tied* const each : {&plain, &net}) each->forward(tokens).square().sum().backward();
    const Parameter& own = parallel.parameters().front();
    RANK_EXPECT(largest_difference(own.tensor.grad(), own_box(plain.head->weight.grad(), own)) <
                kTolerance);
    const auto full = parallel.full_parameters();
    RANK_EXPECT(full.size() == 2 && full[1].first == "head.weight");
    RANK_EXPECT(full[1].second.equal(plain.head->weight.detach()));
  });
}

// Each error is the same on both ranks; the one that knows of it alone is rank 1.
TEST(ParallelizeModule, RefusesPlansAlikeOnAllRanks) {
  run_ranks(2, [](World& world) {
    const DeviceMesh mesh = line(world);
    const bool is_odd = world.rank() == GlobalRank{1};
    const auto expect_refused = [&](nn::Module& module, const DeviceMesh& on,
                                    const ParallelPlan& plan, const std::string& why) {
      const std::string text =
          message_of<ConfigError>([&] { (void)parallelize_module(module, on, plan); });
      RANK_EXPECT(contains(text, why)) << text;
    };
    const auto expect = [&](const ParallelPlan& plan, const std::string& why) {
      expect_refused(*make_net(), mesh, plan, why);
    };
    expect_refused(*make_net(), init_device_mesh(world, {1, 2}, {"dp", "tp"}), kPlain,
                   "needs a mesh with one axis");
    expect({{is_odd ? "upp" : "up", ColwiseParallel{}}},
           "rank 1 no module is named 'upp'; did you mean 'up'?");
    expect({}, "the plan is empty");
    expect({{"norm", ColwiseParallel{}}}, "ColwiseParallel cannot split module 'norm'");
    expect({{"conv", RowwiseParallel{}}}, "RowwiseParallel cannot split module 'conv'");
    expect({{"up", ColwiseParallel{}}, {"u*", RowwiseParallel{}}}, "module 'up' has two styles");
    expect({{"up", ColwiseParallel{.input_layouts = Partial{}}}}, "neither Replicate nor Shard");
    expect({{"up", ColwiseParallel{}}, {"up", PrepareModuleInput{kSequence, kSequence}}},
           "PrepareModuleInput of module 'up' finds no layer with layout S(1)");
    expect({{"up", is_odd ? ParallelStyle(ColwiseParallel{}) : RowwiseParallel{}}},
           "the modules or plans of parallelize_module differ on the ranks");

    Tied tied;
    expect_refused(tied, mesh, {{"embedding", ColwiseParallel{}}, {"head", ColwiseParallel{}}},
                   "'embedding.weight' and 'head.weight' are one tensor, but split along");
    nn::Embedding padded(nn::EmbeddingOptions(6, 2).padding_idx(1));
    expect_refused(*padded, mesh, {{"", RowwiseParallel{}}}, "which has a padding index");
    nn::Embedding normed(nn::EmbeddingOptions(6, 2).max_norm(1));
    expect_refused(*normed, mesh, {{"", ColwiseParallel{}}}, "renormalizes its weight");

    const auto net = make_net();
    const ParallelModule parallel = parallelize_module(*net, mesh, kPlain);
    expect_refused(is_odd ? *net : *make_net(), mesh, kPlain,
                   "rank 1 has parameter 'gate.weight', which is split already");
    const auto sharded = make_net();
    const ShardedModule shards = fully_shard(*sharded, mesh);
    expect_refused(*sharded, mesh, kPlain, "call parallelize_module() first");
    const auto empty = make_net();
    if (is_odd) empty->up->weight.set_data(unallocated({6, kWidth}, testkit::here(at::kDouble)));
    expect_refused(*empty, mesh, kPlain, "rank 1 has parameter 'up.weight', which was built");
  });
}

TEST(ParallelizeModule, RefusesWhatItCannotSplit) {
  run_ranks(2, [](World& world) {
    const auto net = make_net();
    ParallelPlan plan = kSequencePlan;
    plan.emplace_back("embedding", RowwiseParallel{});
    const ParallelModule parallel = parallelize_module(*net, line(world), plan);
    const auto expect = [&](const auto& body, const std::string& why) {
      const std::string text = message_of<ConfigError>(body);
      RANK_EXPECT(contains(text, why)) << text;
    };
    const auto ones = [](at::IntArrayRef shape) {
      return at::ones(shape, testkit::here(at::kDouble));
    };
    // Other operators would compute on this rank's part as if it were the whole.
    expect([&] { (void)net->up->weight.square(); },
           "operator aten::square reads 'up.weight', which parallelize_module() has given a style");
    expect([&] { (void)at::matmul(ones({4}), net->down->weight.t().contiguous()); },
           "operator aten::contiguous reads 'down.weight'");
    expect([&] { (void)at::cat({net->up->weight, ones({1, kWidth})}); }, "operator aten::cat");
    {
      const at::NoGradGuard no_grad;
      RANK_EXPECT(net->up->weight.square().numel() == 12);
      expect([&] { (void)at::matmul(net->up->weight, ones({kWidth})); }, "operator aten::matmul");
    }
    expect(
        [&] {
          const c10::InferenceMode inference;
          (void)net->up->forward(ones({1, 2, kWidth}));
        },
        "use at::NoGradGuard");
    // Inputs that do not fit.
    expect([&] { (void)net->up->forward(ones({1, 2, 3})); },
           "needs inputs of width 4, but got shape [1, 4, 3]");
    expect([&] { (void)net->down->forward(ones({1, 3, 3})); },
           "choose a size that is a multiple of 2");
    expect([&] { (void)net->down->forward(ones({3})); }, "layout S(1) does not fit");
    const at::Tensor tokens = at::full({1, 2}, 6, testkit::here(at::kLong));
    if (tokens.is_cpu()) {
      expect([&] { (void)net->embedding->forward(tokens); }, "token id 6 at [0, 0]");
    }
    // And the module still trains.
    net->forward(ones({1, 2, kWidth})).sum().backward();
    RANK_EXPECT(net->norm->weight.grad().defined());
  });
}

}  // namespace
}  // namespace tessera

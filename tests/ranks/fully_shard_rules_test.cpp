// What a user may do with a sharded module between forward and backward passes: each gradient and
// value is that of the plain module in one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/recorded_operations.h"
#include "tessera/layer/module_unit.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/optim/sgd.h"
#include "tessera/parallel/fsdp/fully_shard.h"
#include "tessera/parallel/recompute/recompute.h"
#include "tessera/tensor/unallocated.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::message_of;
using testkit::run_ranks;

constexpr int64_t kWidth = 4;

// The embedding and a parameter that nothing reads are outside of the units "first" and "second".
struct Net : torch::nn::Module {
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(7, kWidth));
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
  at::Tensor unread = register_parameter("unread", at::zeros({3}));

  Net() {
    to(testkit::device());
    to(at::kDouble);
    const at::NoGradGuard no_grad;
    double phase = 0;
    for (const at::Tensor& parameter : parameters()) {
      phase += 0.1;
      parameter.copy_(
          at::arange(parameter.numel(), parameter.options()).add(phase).sin().view_as(parameter));
    }
  }
  at::Tensor input() const { return embedding->weight.sigmoid(); }
  at::Tensor forward() { return second->forward(first->forward(input()).tanh()); }
};

std::shared_ptr<Net> make_net() {
  return std::make_shared<Net>();
}

const std::vector<std::string> kUnits = {"first", "second"};

ShardedModule shard(Net& net, const World& world,
                    const FullyShardOptions& options = {.units = kUnits}) {
  return fully_shard(net, init_device_mesh(world, {world.size()}, {"dp"}), options);
}

at::Tensor own_part(const Parameter& parameter, const at::Tensor& whole) {
  const Span run = parameter.place.part.elements();
  return whole.detach().reshape(-1).slice(0, run.begin, run.end);
}

void check_gradients(const ShardedModule& sharded, const Net& plain, const std::string& text) {
  const auto expected = plain.named_parameters();
  for (const Parameter& parameter : sharded.parameters()) {
    const at::Tensor whole = expected[parameter.name].grad();
    const at::Tensor& own = parameter.tensor.grad();
    RANK_EXPECT(own.defined() == whole.defined()) << text << ": " << parameter.name;
    if (!own.defined() || !whole.defined()) continue;
    RANK_EXPECT(at::allclose(own.to(whole.device()), own_part(parameter, whole), 1e-12))
        << text << ": " << parameter.name;
  }
}

void check_output(Net& net, Net& plain, const std::string& text) {
  const at::NoGradGuard no_grad;
  RANK_EXPECT(at::allclose(net.forward(), plain.forward(), 1e-12)) << text;
}

at::Tensor recomputed(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& f) {
  const Unit unit{.name = "part",
                  .forward = [f](const at::Tensor& input, const Pass&) { return f(input); }};
  return recompute(unit, Recompute::kFull).forward(x, {});
}

// Each nested backward pass adds to the gradients of the same unit.
TEST(FullyShardRules, PartsOfAUnitAreRecomputed) {
  run_ranks(2, [](World& world) {
    const auto twice_in_a_row = [](Net& net) {
      const auto part = [&](const at::Tensor& x) { return net.first->forward(x).tanh(); };
      return net.second->forward(recomputed(recomputed(net.input(), part), part)).sum();
    };
    const auto weight_alone_first = [](Net& net) {
      const at::Tensor x = recomputed(
          net.input(), [&](const at::Tensor& y) { return at::linear(y, net.first->weight); });
      return recomputed(x.tanh(), [&](const at::Tensor& y) { return net.first->forward(y); }).sum();
    };
    for (const auto& loss : {std::function(twice_in_a_row), std::function(weight_alone_first)}) {
      const auto net = make_net();
      const auto plain = make_net();
      const ShardedModule sharded = shard(*net, world);
      for (int step = 0; step < 2; ++step) {
        loss(*net).backward();
        loss(*plain).backward();
        check_gradients(sharded, *plain, concat("step ", step));
      }
    }
  });
}

TEST(FullyShardRules, TwoForwardPassesThenTwoBackwardPasses) {
  run_ranks(2, [](World& world) {
    const auto net = make_net();
    const auto plain = make_net();
    const ShardedModule sharded = shard(*net, world);
    for (Net* const each : {net.get(), plain.get()}) {
      const at::Tensor one = each->forward().sum();
      const at::Tensor two = each->forward().square().sum();
      one.backward();
      two.backward();
    }
    check_gradients(sharded, *plain, "two losses");
    for (Net* const each : {net.get(), plain.get()}) {
      (each->forward().sum() + each->forward().square().sum()).backward();
    }
    check_gradients(sharded, *plain, "a sum of losses");
  });
}

/// One way to run a step.
struct Way {
  std::string name;
  std::function<void(Net&)> run;
};

void other_order(Net& net) {
  net.first->forward(net.second->forward(net.input()).tanh()).sum().backward();
}

void evaluate_between(Net& net) {
  const at::Tensor loss = net.forward().sum();
  {
    const at::NoGradGuard no_grad;
    (void)net.forward();
    (void)net.second->forward(net.input());
  }
  loss.backward();
}

void forward_alone(Net& net) {
  (void)net.forward();
  (void)net.first->forward(net.input());
}

void recompute_all(Net& net) {
  recomputed(at::zeros({}, testkit::here(at::kDouble)),
             [&](const at::Tensor& zero) { return net.forward() + zero; })
      .sum()
      .backward();
}

void detach_a_weight(Net& net) {
  const at::Tensor x = net.input().matmul(net.first->weight.detach());
  net.second->forward(net.first->forward(x).relu_()).sum().backward();
}

void read_in_a_hook(Net& net) {
  const at::Tensor y = net.first->forward(net.input()).tanh();
  y.register_hook([&](const at::Tensor& gradient) {
    const at::NoGradGuard no_grad;
    return gradient * net.first->bias.sum() + net.second->bias.sum();
  });
  net.second->forward(y).sum().backward();
}

void penalize_a_gradient(Net& net) {
  const at::Tensor x = net.input();
  const at::Tensor y = net.second->forward(net.first->forward(x).tanh()).square().sum();
  const at::Tensor slope = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
  (y + slope.square().sum()).backward();
}

const std::vector<Way> kWays = {{"other order", other_order},
                                {"evaluation between the passes", evaluate_between},
                                {"forward alone", forward_alone},
                                {"recompute", recompute_all},
                                {"a detached weight", detach_a_weight},
                                {"a hook that reads", read_in_a_hook},
                                {"a gradient of a gradient", penalize_a_gradient}};

void check_ways(const World& world, const FsdpOptions& fsdp) {
  const auto net = make_net();
  const auto plain = make_net();
  const auto other = make_net();
  for (Net* const each : {net.get(), plain.get(), other.get()}) {
    each->second->bias.requires_grad_(false);
  }
  const ShardedModule sharded = shard(*net, world, {.units = kUnits, .fsdp = fsdp});
  const ShardedModule others = shard(*other, world, {.units = {"*"}, .fsdp = fsdp});
  Sgd ours(sharded.parameters(), {});
  Sgd theirs(listed_parameters(plain->named_parameters()), {});
  for (const Way& way : kWays) {
    for (int pass = 0; pass < 3; ++pass) {
      const auto held = pass == 1 ? std::optional(sharded.no_sync()) : std::nullopt;
      way.run(*net);
      way.run(*plain);
      if (pass != 1) check_gradients(sharded, *plain, way.name);
      other->forward().sum().backward();
    }
    ours.step(0.01);
    theirs.step(0.01);
    check_output(*net, *plain, way.name);
    ours.zero_grad();
    theirs.zero_grad();
  }
}

TEST(FullyShardRules, EveryWayToRunAStep) {
  const auto every_policy = [](World& world) {
    using enum Reshard;
    for (const Reshard policy : {kAlways, kAllButLast, kNever, kToSmaller, kKeep}) {
      check_ways(world, {.reshard = policy});
    }
    check_ways(world, {.reduce_each = true});
    check_ways(world, {.offload = true});
  };
  run_ranks(2, every_policy);
}

TEST(FullyShardRules, EveryWayToRunAStepAlone) {
  run_ranks(1, [](World& world) {
    check_ways(world, {});
    check_ways(world, {.reshard = Reshard::kKeep});
  });
}

TEST(FullyShardRules, ReadsNewValuesAfterAChangeOfTheShards) {
  run_ranks(2, [](World& world) {
    using enum Reshard;
    for (const Reshard policy : {kAlways, kNever, kKeep}) {
      for (const bool with_gradients : {false, true}) {
        const auto net = make_net();
        const auto plain = make_net();
        const ShardedModule sharded =
            shard(*net, world, {.units = kUnits, .fsdp = {.reshard = policy}});
        Sgd ours(sharded.parameters(), {});
        Sgd theirs(listed_parameters(plain->named_parameters()), {});
        for (int step = 0; step < 2; ++step) {
          net->forward().sum().backward();
          plain->forward().sum().backward();
          {
            const at::AutoGradMode mode(with_gradients);
            (void)net->forward();
          }
          ours.step(0.1);
          theirs.step(0.1);
          sharded.unshard();
          const auto expected = plain->named_parameters();
          for (const auto& item : net->named_parameters()) {
            RANK_EXPECT(at::allclose(item.value(), expected[item.key()], 1e-12)) << item.key();
          }
          sharded.reshard();
          check_output(*net, *plain, concat("policy ", static_cast<int>(policy)));
          for (const Parameter& parameter : sharded.parameters()) {
            const at::NoGradGuard no_grad;
            parameter.tensor.mul_(0.5);
          }
          for (const at::Tensor& parameter : plain->parameters()) {
            const at::NoGradGuard no_grad;
            parameter.mul_(0.5);
          }
          check_output(*net, *plain, concat("changed, policy ", static_cast<int>(policy)));
        }
      }
    }
  });
}

// An optimizer that was given the module's own parameters would do nothing, silently. LibTorch's
// SGD does not tell autograd what it changes.
TEST(FullyShardRules, SaysThatNobodyUpdatesTheShards) {
  run_ranks(2, [](World& world) {
    for (const bool updates : {false, true}) {
      const auto net = make_net();
      const ShardedModule sharded = shard(*net, world);
      std::vector<at::Tensor> shards;
      for (const Parameter& parameter : sharded.parameters()) shards.push_back(parameter.tensor);
      torch::optim::SGD optimizer(updates ? shards : net->parameters(),
                                  torch::optim::SGDOptions(1e-3));
      std::ostringstream said;
      std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
      for (int pass = 1; pass <= 200; ++pass) {
        net->forward().sum().backward();
        if (pass % 16 == 0) optimizer.step();  // Their gradients add up.
      }
      std::cerr.rdbuf(before);
      const bool expected = !updates && world.rank().value == 0;
      RANK_EXPECT(contains(said.str(), "give the optimizer ShardedModule::parameters()") ==
                  expected)
          << said.str();
    }
  });
}

// bfloat16 has no 257. The unit is never complete, since nothing reads one of its parameters.
TEST(FullyShardRules, AccumulatesInTheDtypeOfReduction) {
  run_ranks(2, [](World& world) {
    const auto net = make_net();
    const FsdpOptions fsdp{.compute_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
    const ShardedModule sharded = shard(*net, world, {.units = kUnits, .fsdp = fsdp});
    {
      const auto held = sharded.no_sync();
      for (int pass = 0; pass < 256; ++pass) net->embedding->weight.sum().backward();
    }
    net->embedding->weight.sum().backward();
    const Parameters& own = sharded.parameters();
    const auto weight = std::ranges::find(own, "embedding.weight", &Parameter::name);
    RANK_EXPECT(weight->tensor.grad().eq(257).all().item<bool>()) << weight->tensor.grad();
  });
}

// A loss whose backward pass fails halfway: behind the gradients of "second".
at::Tensor failing_loss(Net& net, const std::shared_ptr<bool>& fails) {
  const at::Tensor hidden = net.first->forward(net.input()).tanh();
  hidden.register_hook([fails](const at::Tensor&) {
    if (*fails) throw std::runtime_error("a hook of the test");
  });
  return net.second->forward(hidden).sum();
}

TEST(FullyShardRules, AFailedBackwardPassLeavesNothingBehind) {
  run_ranks(2, [](World& world) {
    const auto net = make_net();
    const auto plain = make_net();
    const ShardedModule sharded = shard(*net, world);
    const auto fails = std::make_shared<bool>(true);
    const at::Tensor loss = failing_loss(*net, fails);
    EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), std::runtime_error);
    net->forward().sum().backward();
    plain->forward().sum().backward();
    check_gradients(sharded, *plain, "next step");
    EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), std::runtime_error);
    *fails = false;
    loss.backward();
    plain->forward().sum().backward();
    check_gradients(sharded, *plain, "the same backward pass again");
  });
}

TEST(FullyShardRules, ParametersFrozenAfterwardsHaveNoGradients) {
  run_ranks(2, [](World& world) {
    const auto net = make_net();
    const auto plain = make_net();
    const ShardedModule sharded = shard(*net, world);
    for (Net* const each : {net.get(), plain.get()}) {
      for (const char* const name : {"first.weight", "second.weight"}) {
        each->named_parameters()[name].requires_grad_(false);
      }
      each->forward().sum().backward();
    }
    check_gradients(sharded, *plain, "frozen");
    for (Net* const each : {net.get(), plain.get()}) {
      each->first->weight.requires_grad_(true);
      each->forward().sum().backward();
    }
    check_gradients(sharded, *plain, "trained again");
  });
}

TEST(FullyShardRules, WhatWasFrozenCannotBeTrained) {
  run_ranks(2, [](World& world) {
    const auto net = make_net();
    net->first->weight.requires_grad_(false);
    const ShardedModule sharded = shard(*net, world);
    net->forward().sum().backward();
    net->first->weight.requires_grad_(true);
    const std::string message = message_of<ConfigError>([&] { (void)net->forward(); });
    RANK_EXPECT(contains(message, "'first.weight' was frozen before and is not now")) << message;
  });
}

TEST(FullyShardRules, RanksThatDifferAreRefused) {
  run_ranks(2, [](World& world) {
    const bool is_odd = world.rank() == GlobalRank{1};
    const auto refused = [&](Net& net, const FullyShardOptions& options) {
      return message_of<ConfigError>([&] { (void)shard(net, world, options); });
    };
    const auto frozen = make_net();
    if (is_odd) frozen->first->weight.requires_grad_(false);
    const std::string trained = refused(*frozen, {.units = kUnits});
    RANK_EXPECT(contains(trained, "the sharded models differ on the ranks")) << trained;
    const std::string units =
        refused(*make_net(), {.units = is_odd ? std::vector<std::string>{"first"} : kUnits});
    RANK_EXPECT(contains(units, "the sharded models differ on the ranks")) << units;
    // Only the last rank holds elements of the last parameter.
    const auto unfilled = make_net();
    unfilled->unread.set_data(unallocated({3}, unfilled->unread.options()));
    const std::string values = refused(*unfilled, {.units = kUnits});
    RANK_EXPECT(contains(values, "'unread', which was built without memory")) << values;
  });
}

// On whichever lane the groups of the mesh are; NCCL runs operations of one communicator in turns.
TEST(FullyShardRules, GathersAndReductionsHaveLanesOfTheirOwn) {
  run_ranks(2, [](World& world) {
    for (const Lane lane : {Lane::kCompute, Lane::kReduce}) {
      const auto net = make_net();
      const DeviceMesh mesh(world, Layout::row_major({{"dp", 2}}), {{"dp", {.lane = lane}}});
      const ShardedModule sharded = fully_shard(*net, mesh, {.units = kUnits});
      const auto earlier = std::ssize(recorded_operations(world.group()).entries);
      net->forward().sum().backward();
      std::set<int64_t> gather;
      std::set<int64_t> reduce;
      const FlightDump made = recorded_operations(world.group());
      for (auto i = earlier; i < std::ssize(made.entries); ++i) {
        const FlightEntry& entry = made.entries[static_cast<size_t>(i)];
        if (contains(entry.profiling_name, "all_gather")) gather.insert(entry.group_id);
        if (contains(entry.profiling_name, "reduce_scatter")) reduce.insert(entry.group_id);
      }
      RANK_EXPECT(!gather.empty() && !reduce.empty());
      for (const int64_t group : gather) RANK_EXPECT(!reduce.contains(group)) << to_string(lane);
    }
  });
}

TEST(FullyShardRules, CanBeDroppedBetweenPasses) {
  run_ranks(2, [](World& world) {
    const auto net = make_net();
    {
      const ShardedModule sharded = shard(*net, world);
      net->forward().sum().backward();
      (void)net->first->forward(net->input());  // "second" is gathered ahead of time.
    }
    const auto other = make_net();
    const ShardedModule sharded = shard(*other, world);
    RANK_EXPECT(other->forward().defined());
  });
}

}  // namespace
}  // namespace tessera

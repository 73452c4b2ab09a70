// Megatron's parallel state on real ranks: if one rank fails, all do; groups work; groups made by
// hand do not mix.
#include "tessera/dialect/megatron/parallel_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using megatron::ParallelState;
using testkit::contains;
using testkit::reduced_rank;
using testkit::run_ranks;
using testkit::sum_of_ranks;

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(MegatronTogether, EveryGroupConnectsItsMembers) {
  run_ranks(4, [](World& world) {
    ParallelState state(world);
    state.initialize_model_parallel({.tensor_model_parallel_size = 2,
                                     .context_parallel_size = 2,
                                     .hierarchical_context_parallel_sizes = {2},
                                     .expert_model_parallel_size = 2,
                                     .num_distributed_optimizer_instances = 2,
                                     .expert_tensor_parallel_size = 1,
                                     .hybrid_context_parallel = true,
                                     .create_all_gather_group = true});
    for (const Group& group : state.groups()) {
      RANK_EXPECT(reduced_rank(world, group) == sum_of_ranks(group)) << group.name();
    }
  });
}

TEST(MegatronTogether, InitialisesAgainAndAgain) {
  run_ranks(4, [](World& world) {
    ParallelState state(world);
    for (const int64_t tp : {1, 2, 4, 2, 1}) {
      state.initialize_model_parallel({.tensor_model_parallel_size = tp});
      const Group group = state.get_tensor_model_parallel_group();
      RANK_EXPECT(reduced_rank(world, group) == sum_of_ranks(group));
      state.destroy_model_parallel();
    }
  });
}

// A file, a callback and a variable can be wrong on one rank only. The others must not wait.
TEST(MegatronTogether, WhatOneRankRefusesAllRefuse) {
  run_ranks(3, [](World& world) {
    const bool odd_one = world.rank().value == 1;
    ParallelState state(world);
    MegatronConfig config;
    if (odd_one) config.nccl_communicator_config_path = "/nonexistent/nccl.yaml";
    std::string message = refusal_of([&] { state.initialize_model_parallel(config); });
    RANK_EXPECT(contains(message, odd_one ? "/nonexistent" : "on 1 of the 3 ranks")) << message;

    config = {.get_embedding_ranks = [&](const auto& ranks) {
      return odd_one ? std::vector<int64_t>{} : ranks;
    }};
    message = refusal_of([&] { state.initialize_model_parallel(config); });
    RANK_EXPECT(contains(message, odd_one ? "get_embedding_ranks" : "on 1 of the 3")) << message;

    setenv("CUDA_DEVICE_MAX_CONNECTIONS", odd_one ? "1" : "8", 1);
    const Plan plan(3, {}, {},
                    {{"CUDA_DEVICE_MAX_CONNECTIONS", VariableRule::Action::kRefuse, "1"}});
    message = refusal_of([&] { (void)realize(plan, world); });
    RANK_EXPECT(contains(message, odd_one ? "CUDA_DEVICE" : "on 1 of the 3")) << message;

    RANK_EXPECT(!state.is_initialized() && state.groups().empty());
    state.initialize_model_parallel();
    const Group group = state.get_data_parallel_group();
    RANK_EXPECT(reduced_rank(world, group) == 3);
  });
}

// A missing back end is refused before any group is made, so that the next call works.
TEST(MegatronTogether, AMissingBackEndLeavesNothing) {
  run_ranks(2, [](World& world) {
    ParallelState state(world);
    setenv("NCCL_COLLNET_ENABLE", "1", 1);
    if (!at::hasCUDA()) {
      const std::string message = refusal_of([&] {
        state.initialize_model_parallel(
            {.pipeline_model_parallel_size = 2, .pipeline_model_parallel_comm_backend = "nccl"});
      });
      RANK_EXPECT(contains(message, "NCCL")) << message;
      RANK_EXPECT(std::getenv("NCCL_COLLNET_ENABLE") != nullptr) << "is what it was";
    }
    RANK_EXPECT(!state.is_initialized());
    state.initialize_model_parallel({.pipeline_model_parallel_size = 2});
    RANK_EXPECT(reduced_rank(world, state.get_pipeline_model_parallel_group()) == 1);
  });
}

// Two groups of equal ranks, used at the same time, in another order on the other rank.
TEST(MegatronTogether, GroupsMadeByHandDoNotMix) {
  run_ranks(2, [](World& world) {
    ParallelState state(world);
    const Group first = state.create_group({0, 1});
    const Group second = state.create_group({0, 1});
    const bool in_order = world.rank().value == 0;
    const at::Tensor ones = at::full({4}, 1, at::kLong);
    const at::Tensor tens = at::full({4}, 10, at::kLong);
    Work begun = in_order ? all_reduce(ones, first) : all_reduce(tens, second);
    Work then = in_order ? all_reduce(tens, second) : all_reduce(ones, first);
    std::move(begun).wait();
    std::move(then).wait();
    RANK_EXPECT(ones[0].item<int64_t>() == 2);
    RANK_EXPECT(tens[0].item<int64_t>() == 20);
  });
}

TEST(MegatronTogether, TimeOutsChangeAfterABarrier) {
  run_ranks(2, [](World& world) {
    ParallelState state(world);
    state.initialize_model_parallel({.tensor_model_parallel_size = 2});
    state.update_pg_timeout(std::chrono::seconds(77));
    for (const Group& group : state.groups()) {
      RANK_EXPECT(group.timeout() == std::chrono::seconds(77)) << group.name();
    }
    RANK_EXPECT(world.group().timeout() == std::chrono::seconds(77));
    state.update_pg_timeout(std::chrono::seconds(5), state.get_tensor_model_parallel_group());
    RANK_EXPECT(state.get_tensor_model_parallel_group().timeout() == std::chrono::seconds(5));
    RANK_EXPECT(state.get_model_parallel_group().timeout() == std::chrono::seconds(77));
  });
}

}  // namespace
}  // namespace tessera

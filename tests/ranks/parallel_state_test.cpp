// Megatron's parallel_state on eight real ranks: the members of every group, which groups share a
// communicator, and the state after each step of the life cycle.
#include "tessera/dialect/megatron/parallel_state.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/internal/state.h"
#include "tessera/dialect/megatron/memory_buffer.h"
#include "tests/ranks/fresh_world.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/ranks.h"

namespace tessera::megatron {

using namespace comm::detail;

namespace {

using testkit::contains;
using testkit::groups_with;
using testkit::in_fresh_world;
using testkit::NamedRanks;
using testkit::reduced_sums;
using testkit::run_ranks;
using testkit::sums_of;

constexpr int64_t kRanks = 8;

template <class Exception>
std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

std::string to_text(const MegatronConfig& config) {
  return concat("tp ", config.tensor_model_parallel_size, " pp ",
                config.pipeline_model_parallel_size, " cp ", config.context_parallel_size, " ep ",
                config.expert_model_parallel_size, " etp ",
                config.expert_tensor_parallel_size.value_or(0), " instances ",
                config.num_distributed_optimizer_instances, " order ", config.order);
}

// Every group of this rank has the members that the plan lists, and reaches them.
void check_members(World& world, const ParallelState& state, const std::string& what) {
  const std::vector<NamedRanks> planned = groups_with(world.rank(), state.plan());
  RANK_EXPECT(state.groups().size() == planned.size()) << what;
  for (size_t i = 0; i < planned.size(); ++i) {
    const Group& group = state.groups()[i];
    RANK_EXPECT(group.name() == planned[i].name) << what;
    RANK_EXPECT(std::ranges::equal(group.ranks(), planned[i].ranks))
        << what << ": " << group.name();
    RANK_EXPECT(reduced_sums(world, group) == sums_of(planned[i].ranks))
        << what << ": " << group.name();
  }
}

void check_pipeline(World& world, const ParallelState& state, const std::string& what) {
  const RankGroup stages = *state.plan().group_of(world.rank(), "PIPELINE_MODEL_PARALLEL_GROUP");
  const auto size = static_cast<int64_t>(stages.size());
  const int64_t stage = std::ranges::find(stages, world.rank()) - stages.begin();
  const auto at = [&](int64_t index) { return stages[static_cast<size_t>(index % size)].value; };
  RANK_EXPECT(state.get_pipeline_model_parallel_rank() == stage) << what;
  RANK_EXPECT(state.get_pipeline_model_parallel_next_rank() == at(stage + 1)) << what;
  RANK_EXPECT(state.get_pipeline_model_parallel_prev_rank() == at(stage + size - 1)) << what;
  RANK_EXPECT(state.get_pipeline_model_parallel_first_rank() == at(0)) << what;
  RANK_EXPECT(state.get_pipeline_model_parallel_last_rank() == at(size - 1)) << what;
  RANK_EXPECT(state.is_pipeline_first_stage() == (stage == 0)) << what;
  RANK_EXPECT(state.is_pipeline_last_stage() == (stage == size - 1)) << what;
  RANK_EXPECT(state.is_rank_in_embedding_group() == (stage == 0 || stage == size - 1)) << what;
  RANK_EXPECT(state.is_rank_in_position_embedding_group() == (stage == 0)) << what;
}

// Every layout of the decoder and the experts on eight ranks.
std::vector<MegatronConfig> factorisations(const std::string& order) {
  std::vector<MegatronConfig> configs;
  const std::vector<int64_t> sizes{1, 2, 4, 8};
  for (const int64_t tp : sizes)
    for (const int64_t pp : sizes)
      for (const int64_t cp : sizes)
        for (const int64_t ep : sizes)
          for (const int64_t etp : sizes) {
            if (tp * pp * cp > kRanks || etp * ep * pp > kRanks) continue;
            configs.push_back({.tensor_model_parallel_size = tp,
                               .pipeline_model_parallel_size = pp,
                               .context_parallel_size = cp,
                               .expert_model_parallel_size = ep,
                               .expert_tensor_parallel_size = etp,
                               .order = order,
                               .create_gloo_process_groups = false});
          }
  return configs;
}

void sweep(World& world, const std::string& order) {
  ParallelState state(world);
  for (const MegatronConfig& config : factorisations(order)) {
    state.initialize_model_parallel(config);
    check_members(world, state, to_text(config));
    check_pipeline(world, state, to_text(config));
    state.destroy_model_parallel();
  }
}

TEST(ParallelStateRanks, EveryFactorisationReachesItsMembers) {
  run_ranks(kRanks, [](World& world) { sweep(world, "tp-cp-ep-dp-pp"); });
}

TEST(ParallelStateRanks, OtherOrdersReachTheirMembers) {
  run_ranks(kRanks, [](World& world) { sweep(world, "dp-ep-cp-tp-pp"); });
}

// One of each optional kind of group, and combinations.
std::vector<MegatronConfig> with_options() {
  const EmbeddingRanks all_stages = [](const Ranks& stages) { return stages; };
  const EmbeddingRanks backwards = [](const Ranks& stages) {
    return Ranks{stages.back(), stages.front()};
  };
  return {
      {},
      {.tensor_model_parallel_size = 2, .create_gloo_process_groups = false},
      {.tensor_model_parallel_size = 8, .order = "TP-DP-PP"},
      {.pipeline_model_parallel_size = 2, .order = "tp-pp-dp"},
      {.tensor_model_parallel_size = 2,
       .pipeline_model_parallel_size = 2,
       .order = "tp-pp-cp-ep-dp",
       .create_gloo_process_groups = false},
      {.context_parallel_size = 8, .hierarchical_context_parallel_sizes = {2, 2, 2}},
      {.tensor_model_parallel_size = 2,
       .context_parallel_size = 4,
       .hierarchical_context_parallel_sizes = {4, 1}},
      {.context_parallel_size = 2, .hybrid_context_parallel = true},
      {.tensor_model_parallel_size = 2, .hybrid_context_parallel = true},
      {.num_distributed_optimizer_instances = 2},
      {.num_distributed_optimizer_instances = 8, .create_all_gather_group = true},
      {.tensor_model_parallel_size = 2,
       .expert_model_parallel_size = 2,
       .num_distributed_optimizer_instances = 2},
      {.pipeline_model_parallel_size = 2,
       .context_parallel_size = 2,
       .expert_model_parallel_size = 2,
       .num_distributed_optimizer_instances = 2,
       .expert_tensor_parallel_size = 1},
      {.tensor_model_parallel_size = 4, .expert_tensor_parallel_size = 1},
      {.expert_model_parallel_size = 4, .expert_tensor_parallel_size = 2},
      {.context_parallel_size = 2, .order = "tp-dp-cp-ep-pp", .create_all_gather_group = true},
      {.pipeline_model_parallel_size = 4,
       .virtual_pipeline_model_parallel_size = 2,
       .get_embedding_ranks = all_stages,
       .get_position_embedding_ranks = all_stages},
      {.pipeline_model_parallel_size = 4, .get_embedding_ranks = backwards},
      {.context_parallel_size = 4,
       .hierarchical_context_parallel_sizes = {2, 2},
       .expert_model_parallel_size = 2,
       .num_distributed_optimizer_instances = 2,
       .high_priority_stream_groups = {"dp", "ep"},
       .hybrid_context_parallel = true,
       .create_all_gather_group = true},
  };
}

using Tuple = std::tuple<RankGroup, Backend, Lane>;

Tuple tuple_of(const Group& group) {
  return {RankGroup(group.ranks().begin(), group.ranks().end()), group.backend(), group.lane()};
}

// Groups share a communicator if and only if their descriptions are equal.
void check_sharing(const ParallelState& state, const std::string& what) {
  for (const Group& a : state.groups()) {
    for (const Group& b : state.groups()) {
      const bool same = tuple_of(a) == tuple_of(b);
      RANK_EXPECT((a == b) == same) << what << ": " << a.name() << ", " << b.name();
      if (a.size() == 1 || b.size() == 1) continue;
      RANK_EXPECT((a.state().communicator() == b.state().communicator()) == same)
          << what << ": " << a.name() << ", " << b.name();
    }
  }
}

// The recorder knows every communicator of a world.
size_t num_communicators(const World& world) {
  return world.group().state().world().recorder->dump("").groups.size();
}

// The groups of the plan on Gloo, where NCCL's options do not matter, and the group of all ranks,
// in which they compare plans first.
size_t num_tuples(const World& world, const Plan& plan) {
  std::set<Tuple> tuples{tuple_of(world.group())};
  for (const auto& [name, ranks] : groups_with(world.rank(), plan)) {
    if (ranks.size() > 1) tuples.insert({ranks, Backend::kGloo, plan.spec(name).lane});
  }
  return tuples.size();
}

TEST(ParallelStateRanks, EveryOptionReachesItsMembersWithOneCommunicatorADescription) {
  run_ranks(kRanks, [](World&) {
    for (const MegatronConfig& config : with_options()) {
      in_fresh_world([&](World& world) {
        initialize_model_parallel(config);
        const std::string what = to_text(config);
        RANK_EXPECT(num_communicators(world) == num_tuples(world, parallel_state().plan()))
            << what << ": " << num_communicators(world) << " made";
        check_members(world, parallel_state(), what);
        check_sharing(parallel_state(), what);
        const size_t made = num_communicators(world);
        destroy_model_parallel();
        initialize_model_parallel(config);
        RANK_EXPECT(num_communicators(world) == made) << what << ": used again";
        check_members(world, parallel_state(), what);
      });
    }
  });
}

TEST(ParallelStateRanks, GettersReturnTheGroupsOfTheirNames) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World&) {
      initialize_model_parallel({.context_parallel_size = 4,
                                 .hierarchical_context_parallel_sizes = {2, 2},
                                 .expert_model_parallel_size = 2,
                                 .num_distributed_optimizer_instances = 2,
                                 .hybrid_context_parallel = true,
                                 .create_all_gather_group = true});
      const auto named = [](const std::optional<Group>& group, const char* name) {
        RANK_EXPECT(group && group->name() == name) << name;
      };
      named(get_model_parallel_group(), "MODEL_PARALLEL_GROUP");
      named(get_tensor_model_parallel_group(), "TENSOR_MODEL_PARALLEL_GROUP");
      named(get_pipeline_model_parallel_group(), "PIPELINE_MODEL_PARALLEL_GROUP");
      named(get_data_parallel_group(), "DATA_PARALLEL_GROUP");
      named(get_data_parallel_group(true), "DATA_PARALLEL_GROUP_WITH_CP");
      named(get_data_parallel_group(true, true), "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP");
      named(get_data_parallel_group(true, true, true), "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP");
      named(get_data_parallel_group(true, false, true), "DATA_PARALLEL_GROUP_WITH_CP_AG");
      named(get_data_parallel_group_gloo(), "DATA_PARALLEL_GROUP_GLOO");
      named(get_data_parallel_group_gloo(true), "DATA_PARALLEL_GROUP_WITH_CP_GLOO");
      named(get_data_parallel_group_gloo(true, true),
            "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO");
      named(get_context_parallel_group(), "CONTEXT_PARALLEL_GROUP");
      named(get_hierarchical_context_parallel_groups()[0],
            "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L0");
      named(get_hierarchical_context_parallel_groups()[1],
            "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L1");
      named(get_hybrid_data_context_parallel_groups(true, 2), "HYBRID_DP_CP_GROUP_2");
      named(get_hybrid_data_context_parallel_groups(true, 4), "HYBRID_DP_CP_GROUP_4");
      named(get_hybrid_data_context_parallel_groups(true, 8), "DATA_PARALLEL_GROUP_WITH_CP");
      named(get_embedding_group(), "EMBEDDING_GROUP");
      named(get_position_embedding_group(), "POSITION_EMBEDDING_GROUP");
      named(get_amax_reduction_group(true, false), "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP");
      named(get_amax_reduction_group(true, true), "TENSOR_AND_CONTEXT_PARALLEL_GROUP");
      named(get_amax_reduction_group(false, false), "TENSOR_AND_DATA_PARALLEL_GROUP");
      named(get_amax_reduction_group(false, true), "TENSOR_MODEL_PARALLEL_GROUP");
      named(get_expert_model_parallel_group(), "EXPERT_MODEL_PARALLEL_GROUP");
      named(get_expert_tensor_parallel_group(), "EXPERT_TENSOR_PARALLEL_GROUP");
      named(get_expert_tensor_and_model_parallel_group(), "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP");
      named(get_expert_tensor_model_pipeline_parallel_group(),
            "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP");
      named(get_expert_data_parallel_group(), "EXPERT_DATA_PARALLEL_GROUP");
      named(get_expert_data_parallel_group(true, true),
            "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0");
      named(get_expert_data_parallel_group_gloo(true),
            "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0");
      named(get_inter_distributed_optimizer_instance_group(),
            "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1");
      named(get_intra_distributed_optimizer_instance_group(),
            "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP");
    });
  });
}

TEST(ParallelStateRanks, HandlesAreOneOrTwoWhereMegatronsAre) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World&) {
      initialize_model_parallel({.tensor_model_parallel_size = 2, .create_all_gather_group = true});
      RANK_EXPECT(get_data_parallel_group(true, true) == get_data_parallel_group(true));
      RANK_EXPECT(get_expert_data_parallel_group(true, true) == get_expert_data_parallel_group());
      RANK_EXPECT(get_data_modulo_expert_parallel_group() == get_expert_data_parallel_group());
      RANK_EXPECT(get_data_parallel_group_gloo(true, true) == get_data_parallel_group_gloo(true));
      RANK_EXPECT(get_expert_data_parallel_group_gloo(true) ==
                  get_expert_data_parallel_group_gloo());
      RANK_EXPECT(get_data_parallel_group().name() != get_data_parallel_group(true).name());
      const Group gather = get_data_parallel_group(true, false, true);
      RANK_EXPECT(!(gather == get_data_parallel_group(true)));
      RANK_EXPECT(std::ranges::equal(gather.ranks(), get_data_parallel_group(true).ranks()));
      RANK_EXPECT(!(get_data_parallel_group_gloo() == get_data_parallel_group()));
    });
  });
}

// Concurrent operations must not mix: even ranks begin with the gather, odd ranks with the sum.
TEST(ParallelStateRanks, GathersRunBesideSums) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel({.create_all_gather_group = true});
      const bool even = world.rank().value % 2 == 0;
      const at::Tensor mine = at::full({1}, world.rank().value, at::kLong);
      const auto gather = [&] {
        return all_gather(mine, get_data_parallel_group(true, false, true));
      };
      const auto sum = [&] { return all_reduce(mine.clone(), get_data_parallel_group(true)); };
      std::optional<Work> gathering;
      if (even) gathering.emplace(gather());
      RANK_EXPECT(sum().wait().item<int64_t>() == 28);
      if (!even) gathering.emplace(gather());
      RANK_EXPECT(at::equal(std::move(*gathering).wait(), at::arange(kRanks)));
    });
  });
}

TEST(ParallelStateRanks, AnInterleavedPipelineAsksForTheVirtualStage) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel({.tensor_model_parallel_size = 2,
                                 .pipeline_model_parallel_size = 4,
                                 .virtual_pipeline_model_parallel_size = 3});
      const int64_t stage = world.rank().value / 2;
      RANK_EXPECT(get_virtual_pipeline_model_parallel_world_size() == 3);
      RANK_EXPECT(get_virtual_pipeline_model_parallel_rank() == 0);
      for (const int64_t chunk : {0, 1, 2}) {
        RANK_EXPECT(is_pipeline_first_stage(false, chunk) == (stage == 0 && chunk == 0));
        RANK_EXPECT(is_pipeline_last_stage(false, chunk) == (stage == 3 && chunk == 2));
        const bool holds = (stage == 0 && chunk == 0) || (stage == 3 && chunk == 2);
        RANK_EXPECT(is_rank_in_embedding_group(false, chunk) == holds);
      }
      RANK_EXPECT(
          contains(refusal<ConfigError>([] { (void)is_pipeline_first_stage(false); }), "vp_stage"));
      RANK_EXPECT(get_embedding_group(false).has_value() == (stage == 0 || stage == 3));
      RANK_EXPECT(get_position_embedding_group(false).has_value() == (stage == 0));
      destroy_model_parallel();
      RANK_EXPECT(!get_virtual_pipeline_model_parallel_world_size());
    });
  });
}

TEST(ParallelStateRanks, CallbacksChooseTheEmbeddingRanks) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      const EmbeddingRanks middle = [](const Ranks& stages) { return Ranks{stages[2], stages[1]}; };
      initialize_model_parallel({.tensor_model_parallel_size = 2,
                                 .pipeline_model_parallel_size = 4,
                                 .get_embedding_ranks = middle,
                                 .get_position_embedding_ranks = middle});
      const int64_t stage = world.rank().value / 2;
      const bool chosen = stage == 1 || stage == 2;
      RANK_EXPECT(is_rank_in_embedding_group() == chosen);
      RANK_EXPECT(is_rank_in_position_embedding_group() == chosen);
      RANK_EXPECT(chosen ||
                  contains(refusal<ConfigError>([] { (void)get_embedding_group(); }), "is not in"));
      const int64_t column = world.rank().value % 2;
      const RankGroup members = to_ranks({2 + column, 4 + column});
      RANK_EXPECT(!chosen || reduced_sums(world, get_embedding_group()) == sums_of(members));
    });
  });
}

TEST(ParallelStateRanks, ALifeFromBeforeTheFirstCallToAfterTheLast) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      RANK_EXPECT(contains(refusal<StateError>([] { (void)get_data_parallel_group(); }),
                           "initialize_model_parallel"));
      RANK_EXPECT(!is_initialized() && is_unitialized() && !model_parallel_is_initialized());
      initialize_model_parallel({.tensor_model_parallel_size = 4});
      RANK_EXPECT(contains(refusal<StateError>([] { initialize_model_parallel(); }),
                           "destroy_model_parallel"));
      RANK_EXPECT(get_tensor_model_parallel_world_size() == 4) << "the first one is untouched";
      check_members(world, parallel_state(), "after a second call was refused");
      const Group kept = get_tensor_model_parallel_group();
      destroy_model_parallel();
      destroy_model_parallel();
      RANK_EXPECT(!is_initialized() && parallel_state().groups().empty());
      RANK_EXPECT(!refusal<StateError>([] { (void)get_tensor_model_parallel_src_rank(); }).empty());
      RANK_EXPECT(!refusal<StateError>([] { (void)get_global_memory_buffer(); }).empty());
      RANK_EXPECT(!get_tensor_model_parallel_group(false).has_value());
      const RankGroup members(kept.ranks().begin(), kept.ranks().end());
      RANK_EXPECT(reduced_sums(world, kept) == sums_of(members)) << "handles outlive the state";
      initialize_model_parallel({.pipeline_model_parallel_size = 8});
      check_members(world, parallel_state(), "initialised again");
    });
  });
}

TEST(ParallelStateRanks, WhatIsRefusedLeavesNothingAndTheNextOneWorks) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      const EmbeddingRanks stranger = [](const Ranks&) { return Ranks{99}; };
      // Fails on one rank only: the others must not wait for it.
      const EmbeddingRanks moody = [&](const Ranks& stages) {
        if (world.rank().value == 5) throw ConfigError("rank 5 does not know");
        return stages;
      };
      const std::vector<MegatronConfig> bad{
          {.tensor_model_parallel_size = 3},
          {.tensor_model_parallel_size = 16},
          {.tensor_model_parallel_size = 0},
          {.pipeline_model_parallel_size = -2},
          {.virtual_pipeline_model_parallel_size = 2},
          {.context_parallel_size = 4, .hierarchical_context_parallel_sizes = {2, 3}},
          {.num_distributed_optimizer_instances = 3},
          {.nccl_communicator_config_path = "/no/such/file.yaml"},
          {.order = "tp-dp-tp"},
          {.get_embedding_ranks = stranger},
          {.get_embedding_ranks = moody},
          {.high_priority_stream_groups = {"dpp"}},
          {.sharp_enabled_group = "dp"},
          {.pipeline_model_parallel_size = 2, .pipeline_model_parallel_comm_backend = "ucc"},
      };
      for (size_t i = 0; i < bad.size(); ++i) {
        const std::string why = refusal<ConfigError>([&] { initialize_model_parallel(bad[i]); });
        RANK_EXPECT(!why.empty()) << "case " << i;
        RANK_EXPECT(!is_initialized() && parallel_state().groups().empty()) << "case " << i;
        RANK_EXPECT(!get_virtual_pipeline_model_parallel_world_size()) << "case " << i;
        RANK_EXPECT(!refusal<StateError>([] { (void)get_global_memory_buffer(); }).empty());
        RANK_EXPECT(num_communicators(world) == 1) << "case " << i << ": all ranks alone";
      }
      initialize_model_parallel({.tensor_model_parallel_size = 2});
      check_members(world, parallel_state(), "after every refusal");
    });
  });
}

TEST(ParallelStateRanks, GroupsMadeByHandReachTheirMembers) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel({.create_gloo_process_groups = false});
      const Ranks odd{7, 5, 3, 1};
      const bool is_odd = world.rank().value % 2 == 1;
      const Group group = create_group(odd, std::nullopt, "gloo", std::nullopt, false, "odd");
      RANK_EXPECT(group.is_member() == is_odd && group.name() == "odd");
      RANK_EXPECT(std::ranges::equal(group.ranks(), to_ranks({1, 3, 5, 7}))) << "sorted";
      RANK_EXPECT(!is_odd || reduced_sums(world, group) == sums_of(to_ranks(odd)));
      const Group again = create_group(odd);
      RANK_EXPECT(!(group == again)) << "each has a communicator of its own";
      RANK_EXPECT(!is_odd || reduced_sums(world, again) == sums_of(to_ranks(odd)));
      RANK_EXPECT((parallel_state().groups().back() == again) == is_odd);
    });
  });
}

TEST(ParallelStateRanks, HierarchiesAndChunksMadeByHandReachTheirMembers) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      const int64_t rank = world.rank().value;
      const Ranks all{0, 1, 2, 3, 4, 5, 6, 7};
      const auto [groups, twins] = create_hierarchical_groups(rank, all, {2, 4}, true);
      RANK_EXPECT(groups.size() == 2 && twins.size() == 2);
      const RankGroup pair = to_ranks({rank - rank % 2, rank - rank % 2 + 1});
      const RankGroup column = to_ranks({rank % 2, rank % 2 + 2, rank % 2 + 4, rank % 2 + 6});
      RANK_EXPECT(reduced_sums(world, groups[0]) == sums_of(pair));
      RANK_EXPECT(reduced_sums(world, *twins[0]) == sums_of(pair));
      RANK_EXPECT(reduced_sums(world, groups[1]) == sums_of(column));
      RANK_EXPECT(!(groups[1] == *twins[1]));
      const auto chunks = create_hybrid_dp_cp_groups(rank, all);
      RANK_EXPECT(chunks.size() == 2);
      for (const auto& [size, chunk] : chunks) {
        RANK_EXPECT(chunk.ranks().front().value == rank / size * size && chunk.size() == size);
        const RankGroup members(chunk.ranks().begin(), chunk.ranks().end());
        RANK_EXPECT(reduced_sums(world, chunk) == sums_of(members));
      }
    });
  });
}

TEST(ParallelStateRanks, TimeOutsOfOneGroupAndOfAll) {
  run_ranks(kRanks, [](World&) {
    in_fresh_world([](World& world) {
      initialize_model_parallel(
          {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4});
      const Group tensor = get_tensor_model_parallel_group();
      update_pg_timeout(std::chrono::seconds(40));
      for (const Group& group : parallel_state().groups()) {
        RANK_EXPECT(group.timeout() == std::chrono::seconds(40)) << group.name();
      }
      RANK_EXPECT(world.group(to_ranks({0, 1}), {}).timeout() == std::chrono::seconds(40));
      update_pg_timeout(std::chrono::milliseconds(300), tensor);
      RANK_EXPECT(get_pipeline_model_parallel_group().timeout() == std::chrono::seconds(40));
      std::string message;  // The odd rank of each pair does not call it.
      if (tensor.rank() == GroupRank{0}) message = refusal<CommError>([&] { barrier(tensor); });
      RANK_EXPECT(tensor.rank() != GroupRank{0} || contains(message, "timed out")) << message;
      barrier(get_pipeline_model_parallel_group());
      barrier(world.group());
      RANK_EXPECT(
          !refusal<ConfigError>([] { update_pg_timeout(std::chrono::seconds(0)); }).empty());
    });
  });
}

}  // namespace
}  // namespace tessera::megatron

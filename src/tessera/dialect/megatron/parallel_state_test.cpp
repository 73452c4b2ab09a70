#include "tessera/dialect/megatron/parallel_state.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/dialect/megatron/memory_buffer.h"
#include "tests/testkit/throws.h"

namespace tessera::megatron {
namespace {

using testkit::message_of;

class ParallelStateTest : public testing::Test {
 protected:
  ~ParallelStateTest() override {
    World::clear_current();
    destroy_model_parallel();  // Clears the pending state.
  }
  static void act(int64_t rank, int64_t size) {
    World::make_current(World::fake(GlobalRank{rank}, size));
  }
};

TEST_F(ParallelStateTest, GettersNameTheCallThatMustComeFirst) {
  EXPECT_NE(message_of<StateError>([] { initialize_model_parallel(); }).find("make_current"),
            std::string::npos);
  act(0, 4);
  EXPECT_NE(message_of<StateError>([] {
              get_tensor_model_parallel_group();
            }).find("initialize_model_parallel"),
            std::string::npos);
  EXPECT_NE(
      message_of<StateError>([] { get_global_memory_buffer(); }).find("_set_global_memory_buffer"),
      std::string::npos);
  EXPECT_NE(message_of<StateError>([] {
              update_pg_timeout(std::chrono::seconds(1));
            }).find("initialize_model_parallel"),
            std::string::npos);
  EXPECT_FALSE(get_tensor_model_parallel_group(false).has_value());
}

// All ranks reach the barrier, even those outside all groups.
TEST_F(ParallelStateTest, RanksInNoGroupGetTheTimeoutToo) {
  act(3, 4);
  create_group({0, 1});
  update_pg_timeout(std::chrono::seconds(7));
  EXPECT_EQ(World::current()->group().timeout(), std::chrono::seconds(7));
  destroy_model_parallel();
  EXPECT_THROW(update_pg_timeout(std::chrono::seconds(8)), StateError);
}

TEST_F(ParallelStateTest, OverwritingNcclOptionsRefusesWhatTheFileMustNotHold) {
  NcclConfig config;
  EXPECT_NE(message_of<ConfigError>([&] {
              overwrite_nccl_comm_cfgs(config, "dp_pc", {"max_ctas", "4"});
            }).find("did you mean 'dp_cp'"),
            std::string::npos);
  EXPECT_THROW(overwrite_nccl_comm_cfgs(config, "tp", {"max_cta", "4"}), ConfigError);
  EXPECT_TRUE(config.empty()) << "a refusal leaves nothing";
  overwrite_nccl_comm_cfgs(config, "tp", {"max_ctas", "4"});
  EXPECT_EQ(config.at("tp"), (NcclOptions{.max_ctas = 4}));
}

TEST_F(ParallelStateTest, InitialisingTwiceNamesDestroy) {
  act(1, 4);
  initialize_model_parallel({.tensor_model_parallel_size = 2});
  EXPECT_NE(
      message_of<StateError>([] { initialize_model_parallel(); }).find("destroy_model_parallel"),
      std::string::npos);
  EXPECT_EQ(get_tensor_model_parallel_world_size(), 2) << "the first one is untouched";
  destroy_model_parallel();
  EXPECT_THROW(get_tensor_model_parallel_src_rank(), StateError);
  initialize_model_parallel({.pipeline_model_parallel_size = 4});
  EXPECT_EQ(get_pipeline_model_parallel_rank(), 1);
}

TEST_F(ParallelStateTest, GroupsThatWereNotAskedForNameTheirArgument) {
  act(1, 4);
  initialize_model_parallel(
      {.pipeline_model_parallel_size = 4, .create_gloo_process_groups = false});
  const auto refused = [](const std::function<void()>& getter, const char* argument) {
    EXPECT_NE(message_of<ConfigError>(getter).find(argument), std::string::npos) << argument;
  };
  refused([] { get_data_parallel_group_gloo(); }, "create_gloo_process_groups");
  refused([] { get_expert_data_parallel_group_gloo(true); }, "create_gloo_process_groups");
  refused([] { get_data_parallel_group(true, false, true); }, "create_all_gather_group");
  refused([] { get_hierarchical_context_parallel_groups(); },
          "hierarchical_context_parallel_sizes");
  refused([] { get_inter_distributed_optimizer_instance_group(); },
          "num_distributed_optimizer_instances");
  refused([] { get_hybrid_data_context_parallel_groups(true, 2); }, "hybrid_context_parallel");
  refused([] { get_embedding_group(); }, "check_initialized");
  refused([] { get_data_parallel_group(false, true); }, "with_context_parallel");
}

TEST_F(ParallelStateTest, ARefusedInitialisationLeavesNothing) {
  act(0, 8);
  EXPECT_THROW(initialize_model_parallel({.pipeline_model_parallel_size = 4,
                                          .virtual_pipeline_model_parallel_size = 2,
                                          .num_distributed_optimizer_instances = 3}),
               ConfigError);
  EXPECT_FALSE(is_initialized());
  EXPECT_FALSE(get_virtual_pipeline_model_parallel_world_size().has_value());
  EXPECT_TRUE(parallel_state().groups().empty());
  EXPECT_THROW(get_global_memory_buffer(), StateError);
  initialize_model_parallel({.pipeline_model_parallel_size = 4});
  EXPECT_TRUE(model_parallel_is_initialized());
}

TEST_F(ParallelStateTest, TheFirstWorldAdoptsWhatWasSetBefore) {
  set_tensor_model_parallel_rank(3);
  set_data_parallel_rank(9);
  EXPECT_EQ(get_tensor_model_parallel_rank(), 3);
  EXPECT_EQ(get_data_parallel_world_size(), 0) << "there is no world";
  act(0, 4);
  EXPECT_EQ(get_tensor_model_parallel_rank(), 3);
  initialize_model_parallel();
  EXPECT_EQ(get_data_parallel_rank(), 9);
  World::clear_current();
  EXPECT_THROW(get_tensor_model_parallel_rank(), StateError) << "it went with that world";
  act(2, 4);
  initialize_model_parallel();
  EXPECT_EQ(get_tensor_model_parallel_rank(), 0);
  EXPECT_EQ(get_data_parallel_rank(), 2);
}

TEST_F(ParallelStateTest, DestroyTakesBackEveryOverride) {
  act(1, 2);
  initialize_model_parallel();
  set_data_parallel_rank(7);
  destroy_model_parallel();
  initialize_model_parallel();
  EXPECT_EQ(get_data_parallel_rank(), 1);
}

TEST_F(ParallelStateTest, AStateEndsWithItsWorld) {
  act(0, 2);
  initialize_model_parallel();
  const Group group = get_data_parallel_group();
  World::clear_current();
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(group.size(), 2) << "handles outlive it";
  act(0, 2);
  World::current()->close();
  EXPECT_THROW(is_initialized(), StateError);
}

TEST_F(ParallelStateTest, SeveralStatesDoNotDisturbEachOther) {
  World world = World::fake(GlobalRank{3}, 8);
  ParallelState by_tp(world);
  ParallelState by_pp(world);
  by_tp.initialize_model_parallel({.tensor_model_parallel_size = 8});
  by_pp.initialize_model_parallel({.pipeline_model_parallel_size = 8});
  EXPECT_EQ(by_tp.get_tensor_model_parallel_rank(), 3);
  EXPECT_EQ(by_pp.get_tensor_model_parallel_rank(), 0);
  by_tp.destroy_model_parallel();
  EXPECT_EQ(by_pp.get_pipeline_model_parallel_next_rank(), 4);
  EXPECT_FALSE(is_initialized());
}

TEST_F(ParallelStateTest, HandlesAreTheSameWhereMegatronsAre) {
  act(0, 8);
  initialize_model_parallel({.tensor_model_parallel_size = 2, .create_all_gather_group = true});
  EXPECT_EQ(get_data_parallel_group(true, true).name(), get_data_parallel_group(true).name());
  EXPECT_EQ(get_expert_data_parallel_group(true, true)->name(),
            get_expert_data_parallel_group().name());
  EXPECT_FALSE(get_data_parallel_group(true) == get_data_parallel_group(true, false, true));
  EXPECT_FALSE(get_data_parallel_group() == get_data_parallel_group_gloo());
}

TEST_F(ParallelStateTest, OverridesThatLeadOutOfThePipelineAreRefused) {
  act(0, 4);
  initialize_model_parallel({.pipeline_model_parallel_size = 2});
  set_pipeline_model_parallel_world_size(9);
  EXPECT_THROW(get_pipeline_model_parallel_last_rank(), ConfigError);
  EXPECT_THROW(get_pipeline_model_parallel_prev_rank(), ConfigError);
  EXPECT_EQ(get_pipeline_model_parallel_first_rank(), 0);
  set_pipeline_model_parallel_world_size(0);
  EXPECT_THROW(get_pipeline_model_parallel_next_rank(), ConfigError);
  EXPECT_THROW(set_pipeline_model_parallel_rank(-1), ConfigError);
  set_pipeline_model_parallel_world_size(std::nullopt);
  EXPECT_EQ(get_pipeline_model_parallel_next_rank(), 2);
}

TEST_F(ParallelStateTest, GroupsMadeByHandHaveCommunicatorsOfTheirOwn) {
  act(1, 4);
  initialize_model_parallel();
  const Group first = create_group({3, 1});
  const Group second = create_group({1, 3});
  EXPECT_FALSE(first == second);
  EXPECT_EQ(first.rank(), GroupRank{0}) << "ranks are sorted";
  EXPECT_FALSE(create_group({0, 2}).is_member());
  EXPECT_THROW(create_group({}), ConfigError);
  EXPECT_THROW(create_group({0, 1}, std::nullopt, "mpi"), ConfigError);
}

TEST_F(ParallelStateTest, HierarchiesMadeByHand) {
  act(5, 16);
  Ranks ranks;
  for (int64_t rank = 0; rank < 16; ++rank) ranks.push_back(rank);
  const auto [groups, twins] = create_hierarchical_groups(5, ranks, {2, 2, 4}, true);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(RankGroup(groups[0].ranks().begin(), groups[0].ranks().end()), to_ranks({4, 5}));
  EXPECT_EQ(RankGroup(groups[1].ranks().begin(), groups[1].ranks().end()), to_ranks({5, 7}));
  EXPECT_EQ(RankGroup(groups[2].ranks().begin(), groups[2].ranks().end()), to_ranks({1, 5, 9, 13}));
  ASSERT_EQ(twins.size(), 3U);
  EXPECT_EQ(twins[2]->size(), 4);
  EXPECT_FALSE(create_hierarchical_groups(5, ranks, {4, 4}).gloo_groups[1].has_value());
  EXPECT_TRUE(create_hierarchical_groups(5, {0, 1, 2, 3}, {2, 2}).groups.empty());
  EXPECT_THROW(create_hierarchical_groups(5, ranks, {2, 2}), ConfigError);
  EXPECT_THROW(create_hierarchical_groups(4, ranks, {16}), ConfigError);
  const auto chunks = create_hybrid_dp_cp_groups(5, ranks);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks.at(8).ranks().front(), GlobalRank{0});
}

TEST_F(ParallelStateTest, SymmetricMemoryIsNeverThere) {
  act(0, 2);
  EXPECT_THROW(_set_global_symmetric_memory_buffer(), StateError);
  initialize_model_parallel({.tensor_model_parallel_size = 2});
  _set_global_symmetric_memory_buffer();
  EXPECT_FALSE(get_global_symmetric_memory_buffer().maybe_get_tensor({2}, at::kFloat).has_value());
  EXPECT_THROW(_set_global_symmetric_memory_buffer(), StateError);
  destroy_global_symmetric_memory_buffer();
  EXPECT_THROW(get_global_symmetric_memory_buffer(), StateError);
}

}  // namespace
}  // namespace tessera::megatron

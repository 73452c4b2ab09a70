#include "tessera/plan/megatron/plan.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> all;
  for (const GroupSpec& spec : plan.specs()) all.push_back(spec.name);
  return all;
}

TEST(MegatronPlan, CountsAsTheirConstructorCallsSay) {
  const Plan plan = megatron_plan(16384, {.tensor_model_parallel_size = 8,
                                          .pipeline_model_parallel_size = 8,
                                          .context_parallel_size = 2,
                                          .expert_model_parallel_size = 8,
                                          .create_gloo_process_groups = false});
  EXPECT_EQ(plan.num_groups(), 22777);
}

TEST(MegatronPlan, KnownGroupsOfSixteenRanks) {
  const Plan plan =
      megatron_plan(16, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4});
  const auto group = [&](const char* name, int64_t index) {
    return plan.spec(name).groups.group(index);
  };
  EXPECT_EQ(group("TENSOR_MODEL_PARALLEL_GROUP", 3), to_ranks({6, 7}));
  EXPECT_EQ(group("PIPELINE_MODEL_PARALLEL_GROUP", 1), to_ranks({1, 5, 9, 13}));
  EXPECT_EQ(group("EMBEDDING_GROUP", 1), to_ranks({1, 13}));
  EXPECT_EQ(group("DATA_PARALLEL_GROUP", 0), to_ranks({0, 2}));
  EXPECT_EQ(plan.spec("INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP").groups.size(), 16);
}

TEST(MegatronPlan, ExpertsHaveALayoutOfTheirOwn) {
  const Plan plan = megatron_plan(16, {.tensor_model_parallel_size = 4,
                                       .expert_model_parallel_size = 4,
                                       .expert_tensor_parallel_size = 1});
  EXPECT_EQ(plan.group_of(GlobalRank{1}, "EXPERT_MODEL_PARALLEL_GROUP"), to_ranks({0, 1, 2, 3}));
  EXPECT_EQ(plan.group_of(GlobalRank{1}, "EXPERT_TENSOR_PARALLEL_GROUP"), to_ranks({1}));
  EXPECT_EQ(plan.group_of(GlobalRank{4}, "EXPERT_DATA_PARALLEL_GROUP"), to_ranks({0, 4, 8, 12}));
}

TEST(MegatronPlan, EveryOptionalGroupInItsPlace) {
  const Plan plan = megatron_plan(16, {.context_parallel_size = 4,
                                       .hierarchical_context_parallel_sizes = {2, 2},
                                       .num_distributed_optimizer_instances = 2,
                                       .hybrid_context_parallel = true,
                                       .create_all_gather_group = true});
  const std::vector<std::string> expected{"DATA_PARALLEL_GROUP_WITH_CP",
                                          "DATA_PARALLEL_GROUP_WITH_CP_AG",
                                          "DATA_PARALLEL_GROUP_WITH_CP_GLOO",
                                          "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
                                          "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO",
                                          "HYBRID_DP_CP_GROUP_2",
                                          "HYBRID_DP_CP_GROUP_4",
                                          "HYBRID_DP_CP_GROUP_8",
                                          "DATA_PARALLEL_GROUP",
                                          "DATA_PARALLEL_GROUP_GLOO",
                                          "CONTEXT_PARALLEL_GROUP",
                                          "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L0",
                                          "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L1",
                                          "MODEL_PARALLEL_GROUP",
                                          "TENSOR_MODEL_PARALLEL_GROUP",
                                          "PIPELINE_MODEL_PARALLEL_GROUP",
                                          "EMBEDDING_GROUP",
                                          "POSITION_EMBEDDING_GROUP",
                                          "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP",
                                          "TENSOR_AND_DATA_PARALLEL_GROUP",
                                          "TENSOR_AND_CONTEXT_PARALLEL_GROUP",
                                          "EXPERT_MODEL_PARALLEL_GROUP",
                                          "EXPERT_TENSOR_PARALLEL_GROUP",
                                          "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP",
                                          "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
                                          "EXPERT_DATA_PARALLEL_GROUP",
                                          "EXPERT_DATA_PARALLEL_GROUP_GLOO",
                                          "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0",
                                          "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0",
                                          "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1",
                                          "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L1",
                                          "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"};
  EXPECT_EQ(names(plan), expected);
}

TEST(MegatronPlan, WhatRunsSideBySideHasALaneOfItsOwn) {
  const Plan plan = megatron_plan(8, {.create_all_gather_group = true});
  EXPECT_EQ(plan.spec("DATA_PARALLEL_GROUP_WITH_CP").lane, Lane::kReduce);
  EXPECT_EQ(plan.spec("DATA_PARALLEL_GROUP_WITH_CP_AG").lane, Lane::kGather);
  EXPECT_EQ(plan.spec("DATA_PARALLEL_GROUP_WITH_CP_GLOO").lane, Lane::kControl);
  EXPECT_EQ(plan.spec("PIPELINE_MODEL_PARALLEL_GROUP").lane, Lane::kP2p);
  EXPECT_EQ(plan.spec("TENSOR_MODEL_PARALLEL_GROUP").lane, Lane::kCompute);
}

TEST(MegatronPlan, SharpAndTimeoutsReachTheirGroups) {
  const Plan plan = megatron_plan(8, {.use_sharp = true,
                                      .num_distributed_optimizer_instances = 2,
                                      .distributed_timeout_minutes = 7,
                                      .sharp_enabled_group = "dp_replica"});
  EXPECT_FALSE(plan.spec("DATA_PARALLEL_GROUP_WITH_CP").sharp);
  EXPECT_TRUE(plan.spec("HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1").sharp);
  EXPECT_EQ(plan.spec("DATA_PARALLEL_GROUP").timeout, std::chrono::minutes(7));
  EXPECT_EQ(plan.spec("EXPERT_DATA_PARALLEL_GROUP_GLOO").timeout, std::nullopt);
  EXPECT_TRUE(megatron_plan(8, {.use_sharp = true}).spec("DATA_PARALLEL_GROUP_WITH_CP").sharp);
}

TEST(MegatronPlan, UccBringsItsVariables) {
  const auto variables = [](const char* connections) {
    return [connections](const std::string& name) -> std::optional<std::string> {
      if (name == "CUDA_DEVICE_MAX_CONNECTIONS") return connections;
      return std::nullopt;
    };
  };
  const Plan plan = megatron_plan(
      8, {.pipeline_model_parallel_size = 2, .pipeline_model_parallel_comm_backend = "ucc"});
  EXPECT_EQ(plan.spec("PIPELINE_MODEL_PARALLEL_GROUP").backend, GroupBackend::kUcc);
  EXPECT_EQ(plan.spec("EMBEDDING_GROUP").backend, GroupBackend::kDefault);
  EXPECT_EQ(plan.variables().size(), 9U);
  EXPECT_NO_THROW(check_variables(plan.variables(), variables("8")));
  EXPECT_THROW(check_variables(plan.variables(), variables("1")), ConfigError);
  EXPECT_NO_THROW(check_variables(megatron_plan(8, {}).variables(), variables("1")));
}

TEST(MegatronPlan, CallbacksSeePipelinesAndTheirOrderIsKept) {
  std::vector<std::vector<int64_t>> seen;
  const Plan plan =
      megatron_plan(8, {.pipeline_model_parallel_size = 4,
                        .get_embedding_ranks = [&](const std::vector<int64_t>& ranks) {
                          seen.push_back(ranks);
                          return std::vector{ranks.back(), ranks.front()};
                        }});
  EXPECT_EQ(seen, (std::vector<std::vector<int64_t>>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(plan.spec("EMBEDDING_GROUP").groups.listed(1), to_ranks({7, 1}));
  EXPECT_EQ(plan.group_of(GlobalRank{7}, "EMBEDDING_GROUP"), to_ranks({1, 7}));
  EXPECT_EQ(plan.group_of(GlobalRank{3}, "EMBEDDING_GROUP"), std::nullopt);
}

std::string refused(int64_t world, const MegatronConfig& config) {
  return message_of<ConfigError>([&] { megatron_plan(world, config); });
}

TEST(MegatronPlanErrors, NameTheValueTheRuleAndTheFix) {
  EXPECT_EQ(
      refused(12, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4}),
      "world size 12 is not divisible by tp·cp·pp = 8 (tp=2, cp=1, pp=4); nearest world sizes: "
      "8, 16");
  EXPECT_EQ(refused(4, {.tensor_model_parallel_size = 8}),
            "world size 4 is not divisible by tp·cp·pp = 8 (tp=8, cp=1, pp=1); nearest world "
            "sizes: 8");
  EXPECT_EQ(refused(8, {.expert_tensor_parallel_size = 3}),
            "world size 8 is not divisible by etp·ep·pp = 3 (etp=3, ep=1, pp=1); nearest world "
            "sizes: 6, 9");
  EXPECT_EQ(refused(0, {}), "world size is 0, but must be at least 1");
  EXPECT_EQ(refused(8, {.tensor_model_parallel_size = -2}),
            "the size of tp is -2, but must be at least 1");
}

struct Bad {
  int64_t world;
  MegatronConfig config;
  const char* message;
};

TEST(MegatronPlanErrors, EveryBadCombination) {
  const std::vector<Bad> all{
      {8, {.virtual_pipeline_model_parallel_size = 2}, "virtual pp=2 needs pp above 1, not 1"},
      {8,
       {.pipeline_model_parallel_size = 2, .virtual_pipeline_model_parallel_size = 0},
       "size of virtual pp is 0"},
      {8, {.pipeline_model_parallel_comm_backend = "gloo"}, "cannot communicate over 'gloo'"},
      {8, {.pipeline_model_parallel_comm_backend = ""}, "cannot communicate over ''"},
      {8, {.sharp_enabled_group = "dp"}, "but use_sharp is off"},
      {8, {.use_sharp = true, .sharp_enabled_group = "tp"}, "'tp' is unknown"},
      {8, {.use_sharp = true, .sharp_enabled_group = "dp_replica"}, "several optimizer instances"},
      {8,
       {.context_parallel_size = 4, .hierarchical_context_parallel_sizes = {2, 3}},
       "2·3 = 6 are not cp=4"},
      {8,
       {.context_parallel_size = 4, .hierarchical_context_parallel_sizes = {-2, -2}},
       "size of a level of hierarchical cp is -2"},
      {6, {.tensor_model_parallel_size = 2, .hybrid_context_parallel = true}, "dp·cp = 3 is odd"},
      {8,
       {.num_distributed_optimizer_instances = 0},
       "size of num_distributed_optimizer_instances is 0"},
      {8,
       {.num_distributed_optimizer_instances = -2},
       "size of num_distributed_optimizer_instances is -2"},
      {8, {.num_distributed_optimizer_instances = 3}, "dp·cp = 8 is not divisible by 3"},
      {8,
       {.expert_model_parallel_size = 4, .num_distributed_optimizer_instances = 4},
       "the experts' dp = 2 is not divisible by 4"},
      {8, {.nccl_communicator_config_path = "/no/such/file"}, "cannot open /no/such/file"},
      {8, {.high_priority_stream_groups = {"dp-cp"}}, "did you mean 'dp_cp'?"},
      {8, {.distributed_timeout_minutes = 0}, "distributed_timeout_minutes 0"},
      {8, {.distributed_timeout_minutes = int64_t{1} << 62}, "choose 1 to"},
      {8, {.tensor_model_parallel_size = 2, .order = "tp-xx-dp-pp"}, "unknown entry 'xx'"},
      {8, {.order = "tp-dp-pp-"}, "unknown entry ''"},
      {8, {.order = "tp-tp-dp"}, "'tp' twice"},
      {8, {.context_parallel_size = 2, .order = "tp-ep-dp-pp"}, "cp has size 2 but is not in"},
      {8, {.expert_model_parallel_size = 2, .order = "tp-cp-dp-pp"}, "ep has size 2 but is not in"},
  };
  for (const Bad& bad : all) {
    const std::string message = refused(bad.world, bad.config);
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.message << "\n" << message;
  }
}

TEST(MegatronPlanErrors, LayoutsThatDisagreeOnPipelines) {
  EXPECT_NE(refused(16, {.tensor_model_parallel_size = 2,
                         .pipeline_model_parallel_size = 2,
                         .expert_model_parallel_size = 2,
                         .order = "tp-pp-cp-ep-dp"})
                .find("put pp last"),
            std::string::npos)
      << "the data-parallel sizes differ and pp is not last";
  EXPECT_NE(refused(16, {.tensor_model_parallel_size = 4,
                         .pipeline_model_parallel_size = 2,
                         .expert_model_parallel_size = 2,
                         .expert_tensor_parallel_size = 2,
                         .order = "tp-pp-ep-dp"})
                .find("different pipelines"),
            std::string::npos)
      << "dp is 2 in both, but the pipelines have other strides";
  EXPECT_NO_THROW(megatron_plan(
      16,
      {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2, .order = "tp-pp-dp"}));
}

TEST(MegatronPlanErrors, StrangeRanksOfACallback) {
  const auto with = [](const std::vector<int64_t>& answer) {
    return MegatronConfig{
        .pipeline_model_parallel_size = 2,
        .get_position_embedding_ranks = [=](const std::vector<int64_t>&) { return answer; }};
  };
  for (const auto& answer : std::vector<std::vector<int64_t>>{{}, {0, 0}, {1}, {-1}, {1'000'000}}) {
    EXPECT_TRUE(refused(8, with(answer)).starts_with("get_position_embedding_ranks: "));
  }
}

TEST(MegatronPlanErrors, RefuseOverflow) {
  EXPECT_NE(refused(8, {.tensor_model_parallel_size = int64_t{1} << 40,
                        .pipeline_model_parallel_size = int64_t{1} << 40})
                .find("overflows 64 bits"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera

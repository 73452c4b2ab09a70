#include "tessera/mesh/realize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/plan/megatron/plan.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

std::vector<std::string> names_of(const RealizedPlan& realized) {
  std::vector<std::string> names;
  for (const Group& group : realized.groups()) names.push_back(group.name());
  return names;
}

TEST(Realize, MakesTheGroupsOfThisRankInThePlansOrder) {
  const Plan plan = megatron_plan(16, {.tensor_model_parallel_size = 2,
                                       .pipeline_model_parallel_size = 4,
                                       .create_gloo_process_groups = false});
  World world = World::fake(GlobalRank{5}, 16);
  const RealizedPlan realized = realize(plan, world);
  std::vector<std::string> planned;
  for (const auto& [spec, ranks] : plan.groups_of(GlobalRank{5})) planned.push_back(spec->name);
  EXPECT_EQ(names_of(realized), planned);
  for (const Group& group : realized.groups()) {
    EXPECT_TRUE(std::ranges::equal(group.ranks(), *plan.group_of(GlobalRank{5}, group.name())));
    EXPECT_EQ(group.lane(), plan.spec(group.name()).lane);
  }
  EXPECT_EQ(realized.find("EMBEDDING_GROUP"), nullptr) << "rank 5 is in a middle stage";
  EXPECT_EQ(realized.find("NO_SUCH_GROUP"), nullptr);
}

TEST(Realize, ASpecWithoutTimeOutUsesTheWorlds) {
  World world = World::fake(GlobalRank{0}, 4);
  const auto realized = realize(megatron_plan(4, {.distributed_timeout_minutes = 7}), world);
  EXPECT_EQ(realized.find("DATA_PARALLEL_GROUP")->timeout(), std::chrono::minutes(7));
  EXPECT_EQ(realized.find("EXPERT_DATA_PARALLEL_GROUP_GLOO")->timeout(), std::chrono::minutes(30));
}

TEST(Realize, ObeysTheRulesAboutVariables) {
  setenv("NCCL_COLLNET_ENABLE", "1", 1);
  setenv("UCX_TLS", "tcp", 1);
  World world = World::fake(GlobalRank{0}, 2);
  const MegatronConfig ucc{.pipeline_model_parallel_size = 2,
                           .pipeline_model_parallel_comm_backend = "ucc"};
  EXPECT_EQ(realize(megatron_plan(2, ucc), world).groups().size(), 20U);
  EXPECT_EQ(std::getenv("NCCL_COLLNET_ENABLE"), nullptr) << "is removed";
  EXPECT_STREQ(std::getenv("UCX_NET_DEVICES"), "all") << "is set";
  EXPECT_STREQ(std::getenv("UCX_TLS"), "tcp") << "is set only if it is absent";
}

TEST(Realize, RestoresVariablesIfItFails) {
  const MegatronConfig ucc{.pipeline_model_parallel_size = 2,
                           .pipeline_model_parallel_comm_backend = "ucc"};
  unsetenv("UCX_RNDV_THRESH");
  setenv("NCCL_COLLNET_ENABLE", "1", 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  World world = World::fake(GlobalRank{0}, 2);
  EXPECT_NE(testkit::message_of<ConfigError>([&] {
              realize(megatron_plan(2, ucc), world);
            }).find("CUDA_DEVICE_MAX_CONNECTIONS=1"),
            std::string::npos);
  EXPECT_STREQ(std::getenv("NCCL_COLLNET_ENABLE"), "1");
  EXPECT_EQ(std::getenv("UCX_RNDV_THRESH"), nullptr);
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  unsetenv("NCCL_COLLNET_ENABLE");
}

TEST(Realize, RefusesUccOutsideFakeWorlds) {
  World world = World::connect(LaunchInfo{}, {.backend = Backend::kGloo});
  const Plan plan = megatron_plan(1, {.pipeline_model_parallel_comm_backend = "ucc"});
  EXPECT_NE(testkit::message_of<ConfigError>([&] { realize(plan, world); }).find("UCC"),
            std::string::npos);
}

TEST(Realize, RefusesAPlanForAnotherWorld) {
  World world = World::fake(GlobalRank{0}, 4);
  EXPECT_THROW(realize(megatron_plan(8, {}), world), ConfigError);
}

TEST(Realize, GroupsThatDescribeTheSameShareACommunicator) {
  World world = World::fake(GlobalRank{0}, 4);
  const auto realized = realize(megatron_plan(4, {.high_priority_stream_groups = {"dp"}}), world);
  EXPECT_TRUE(*realized.find("DATA_PARALLEL_GROUP") ==
              *realized.find("DATA_PARALLEL_GROUP_WITH_CP"))
      << "NCCL's options only matter with NCCL";
  EXPECT_FALSE(*realized.find("DATA_PARALLEL_GROUP") == *realized.find("DATA_PARALLEL_GROUP_GLOO"));
}

}  // namespace
}  // namespace tessera

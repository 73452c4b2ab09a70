// OLMo's meshes as any rank of a fake world.
#include "tessera/dialect/olmo/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/error.h"
#include "tessera/dialect/olmo/utils.h"
#include "tessera/plan/olmo/plan.h"
#include "tests/testkit/throws.h"

namespace tessera::olmo {
namespace {

using testkit::message_of;

const DataParallelConfig kFsdp{.name = DataParallelType::fsdp};
const DataParallelConfig kHsdp{.name = DataParallelType::hsdp};

// Rank 5 of eight, on two nodes.
class OlmoParallel : public testing::Test {
 protected:
  OlmoParallel() {
    setenv("NUM_NODES", "2", 1);
    World::make_current(World::fake(GlobalRank{5}, 8));
  }
  ~OlmoParallel() override {
    World::clear_current();
    unsetenv("NUM_NODES");
  }
};

TEST_F(OlmoParallel, TheWorldMeshIsKeptWithItsWorld) {
  EXPECT_FALSE(get_world_mesh().has_value());
  const DeviceMesh mesh = build_world_mesh({.dp = kFsdp, .tp = {{.degree = 2}}});
  EXPECT_TRUE(get_world_mesh() == mesh);
  EXPECT_EQ(get_mesh_coordinates(mesh), (Coordinate{2, 1}));
  World::clear_current();
  EXPECT_FALSE(get_world_mesh().has_value());
  World::make_current(World::fake(GlobalRank{0}, 8));
  EXPECT_FALSE(get_world_mesh().has_value()) << "another world";
}

TEST_F(OlmoParallel, ThereIsOneWorldMesh) {
  const DeviceMesh mesh = build_world_mesh({.dp = kFsdp});
  EXPECT_THROW(build_world_mesh({.dp = kHsdp}), StateError);
  EXPECT_THROW(build_world_mesh(), StateError) << "checked before anything else";
  EXPECT_TRUE(get_world_mesh() == mesh);
}

TEST_F(OlmoParallel, NothingConfiguredIsNotRegistered) {
  EXPECT_EQ(get_device_mesh_info(build_world_mesh()), "1D device mesh with shape (dp=8,)");
  EXPECT_EQ(get_device_mesh_info(build_world_mesh()), "1D device mesh with shape (dp=8,)");
  EXPECT_FALSE(get_world_mesh().has_value());
}

TEST_F(OlmoParallel, ARefusalLeavesNothing) {
  EXPECT_THROW(build_world_mesh({.dp = kFsdp, .tp = {{.degree = 3}}}), ConfigError);
  EXPECT_THROW(build_world_mesh({.dp = kFsdp}, "tpu"), ConfigError);
  setenv("NUM_NODES", "3", 1);
  EXPECT_THROW(build_world_mesh({.dp = kHsdp}), ConfigError);
  EXPECT_FALSE(get_world_mesh().has_value());
  build_world_mesh({.dp = kFsdp});
  EXPECT_TRUE(get_world_mesh().has_value());
}

TEST_F(OlmoParallel, NodesAreAskedForWhereTheyMatterAlone) {
  unsetenv("NUM_NODES");
  EXPECT_THROW(build_world_mesh({.dp = kHsdp}), ConfigError);
  DataParallelConfig four = kHsdp;
  four.shard_degree = 4;
  build_world_mesh({.dp = four});
  EXPECT_EQ(get_replicate_and_shard_degree(four, 8), (ReplicateAndShardDegree{2, 4}));
}

TEST(OlmoParallelAlone, AWorldIsNeeded) {
  EXPECT_FALSE(get_world_mesh().has_value());
  const std::string message = message_of<StateError>([] { build_world_mesh({.dp = kFsdp}); });
  EXPECT_NE(message.find("init_distributed"), std::string::npos) << message;
  EXPECT_THROW(build_expert_parallel_mesh({.degree = 2}), StateError);
}

TEST_F(OlmoParallel, MissingSubMeshesNameTheConfiguration) {
  const DeviceMesh mesh = build_world_mesh({.dp = kFsdp});
  EXPECT_EQ(message_of<ConfigError>([&] { get_tp_mesh(mesh); }),
            "DeviceMesh(dp=8) over ranks 0-7 has no tensor parallel sub-mesh: it has no dimension "
            "tp; build it with a TensorParallelConfig");
  EXPECT_THROW(get_pp_stage_mesh(mesh), ConfigError);
}

// The peer finds neither of them: it looks up names in a mesh that did not register them.
TEST_F(OlmoParallel, StagesWithContextParallelismHaveSubMeshes) {
  const DeviceMesh mesh = build_world_mesh(
      {.dp = kFsdp, .tp = {{.degree = 2}}, .cp = {{.degree = 2}}, .pp = {{.degree = 2}}});
  const DeviceMesh stage = get_pp_stage_mesh(mesh);
  EXPECT_TRUE(get_dp_model_mesh(stage) == get_dp_model_mesh(mesh));
  EXPECT_EQ(get_dp_model_mesh(stage).layout().ranks(), to_ranks({5, 7}));
  EXPECT_TRUE(get_tp_mesh(stage) == get_tp_mesh(mesh));
  World::clear_current();
  World::make_current(World::fake(GlobalRank{5}, 8));
  const DeviceMesh hybrid = build_world_mesh({.dp = kHsdp, .cp = {{.degree = 2}}});
  EXPECT_EQ(get_dp_shard_mesh(hybrid).layout().ranks(), to_ranks({5, 7}));
}

TEST_F(OlmoParallel, AnyMeshOfTheNamesWillDo) {
  const World& world = *World::current();
  const DeviceMesh experts(world, Layout::row_major({{"dp", 2}, {"ep", 2}, {"cp", 2}}));
  EXPECT_EQ(get_dp_mesh(experts).axis_names(), AxisNames{"dp_ep"});
  EXPECT_EQ(get_dp_mesh(experts).layout().ranks(), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(get_dp_model_mesh(experts).axis_names(), AxisNames{"dp_cp"});
  EXPECT_EQ(get_dp_model_mesh(experts).size(), 8);
  EXPECT_EQ(get_ep_mesh(experts).layout().ranks(), to_ranks({5, 7}));
  const DeviceMesh sharded(world, Layout::row_major({{"dp_shard", 2}, {"ep", 4}}));
  EXPECT_EQ(get_dp_mesh(sharded), sharded["dp_shard"]) << "ep is flattened into dp alone";
  EXPECT_EQ(get_dp_model_mesh(sharded), sharded["dp_shard"]);
  EXPECT_EQ(get_dp_process_group(sharded).ranks(), to_ranks({1, 5}));
  EXPECT_THROW(get_dp_mesh(get_dp_model_mesh(experts)), ConfigError) << "dp_cp has no dp";
  const DeviceMesh without(world, Layout::row_major({{"cp", 2}, {"tp", 4}}));
  EXPECT_THROW(get_dp_mesh(without), ConfigError);
  EXPECT_THROW(get_dp_model_mesh(without), ConfigError);
  EXPECT_EQ(get_pp_stage_mesh(without, get_cp_mesh(without)).axis_names(), AxisNames{"tp"});
  EXPECT_THROW(get_pp_stage_mesh(without, without), ConfigError);
}

TEST_F(OlmoParallel, FlattenedNamesAreKnownToTheRoot) {
  const DeviceMesh mesh = build_world_mesh({.dp = kHsdp, .tp = {{.degree = 2}}});
  const DeviceMesh flat = flatten_mesh(get_dp_mesh(mesh));
  EXPECT_EQ(flat.axis_names(), AxisNames{"dp_replicate_dp_shard"});
  EXPECT_TRUE(mesh.get_group("dp_replicate_dp_shard") == flat.get_group());
  EXPECT_TRUE(flatten_mesh(flat) == flat);
  EXPECT_TRUE(flatten_mesh(get_dp_mesh(mesh), "dp").get_group() == get_dp_process_group(mesh));
  EXPECT_EQ(flatten_mesh(get_tp_mesh(mesh), "model").axis_names(), AxisNames{"model"});
  EXPECT_THROW(flatten_mesh(get_dp_mesh(mesh), "tp"), ConfigError);
  EXPECT_THROW(flatten_mesh(get_dp_mesh(mesh), "model"), ConfigError) << "other ranks";
  EXPECT_EQ(mesh.axis_names(), (AxisNames{"dp_replicate", "dp_shard", "tp"}));
}

TEST_F(OlmoParallel, ExpertMeshes) {
  const DeviceMesh mesh = build_expert_parallel_mesh({.degree = 4});
  EXPECT_EQ(get_device_mesh_info(mesh), "2D device mesh with shape (ep_replicate=2, ep_shard=4)");
  EXPECT_EQ(get_dp_mesh(mesh).axis_names(), AxisNames{"dp"});
  EXPECT_EQ(build_expert_parallel_mesh({.degree = -1}).shape(), (std::vector<int64_t>{1, 8}));
  EXPECT_THROW(build_expert_parallel_mesh({.degree = 3}), ConfigError);
  EXPECT_THROW(build_expert_parallel_mesh({.degree = 0}), ConfigError);
  EXPECT_FALSE(get_world_mesh().has_value());
}

TEST_F(OlmoParallel, AsynchronousTensorParallelismIsRefused) {
  const DeviceMesh mesh = build_world_mesh({.dp = kFsdp, .tp = {{.degree = 2}}});
  maybe_enable_async_tp({.degree = 2}, get_tp_mesh(mesh));
  EXPECT_THROW(maybe_enable_async_tp({.degree = 2, .enable_async = true}, get_tp_mesh(mesh)),
               ConfigError);
}

// The mesh has every group of the plan, each in its lane.
TEST_F(OlmoParallel, TheMeshHasThePlansGroups) {
  const Plan plan = olmo_plan(8, {.dp = kHsdp, .cp = {{.degree = 2}}}, 2);
  const DeviceMesh mesh = make_mesh(*World::current(), plan);
  for (const GroupSpec& spec : plan.specs()) {
    const Group group = mesh.get_group(spec.name);
    EXPECT_TRUE(std::ranges::equal(group.ranks(), *plan.group_of(GlobalRank{5}, spec.name)));
    EXPECT_EQ(group.lane(), spec.lane) << spec.name;
  }
  EXPECT_FALSE(get_world_mesh().has_value());
}

TEST_F(OlmoParallel, AnyRankOfALargeWorld) {
  World::clear_current();
  World::make_current(World::fake(GlobalRank{8195}, 16384));
  const DeviceMesh mesh = build_world_mesh(
      {.dp = kHsdp, .tp = {{.degree = 8}}, .cp = {{.degree = 2}}, .pp = {{.degree = 8}}});
  EXPECT_EQ(mesh.get_coordinate(), (Coordinate{4, 0, 0, 0, 3}));
  EXPECT_EQ(get_dp_model_mesh(mesh).shape(), (std::vector<int64_t>{2, 128}));
}

}  // namespace
}  // namespace tessera::olmo

// Meshes as one rank of many, and invalid arguments.
#include "tessera/dialect/nemo/mesh_utils.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::nemo {
namespace {

using testkit::message_of;

class NemoMesh : public testing::Test {
 protected:
  ~NemoMesh() override { World::clear_current(); }

  static void act_as(int64_t rank, int64_t world) {
    World::clear_current();
    World::make_current(World::fake(GlobalRank{rank}, world));
  }
};

RankGroup ranks_of(const DeviceMesh& mesh, const char* axis) {
  const auto ranks = mesh.get_group(axis).ranks();
  return {ranks.begin(), ranks.end()};
}

std::string refusal(const std::function<void()>& body) {
  return message_of<ConfigError>(body);
}

TEST_F(NemoMesh, FSDP2AsThePageUsesIt) {
  act_as(5, 8);
  const FSDP2Config config{.sequence_parallel = true};
  const auto [mesh, moe] = create_device_mesh(config, {.dp_replicate_size = 2, .tp_size = 2}, 8);
  ASSERT_TRUE(mesh);
  EXPECT_FALSE(moe);
  EXPECT_EQ(mesh->axis_names(), (AxisNames{"pp", "dp_replicate", "dp_shard", "cp", "tp"}));
  EXPECT_EQ(mesh->shape(), (std::vector<int64_t>{1, 2, 2, 1, 2}));
  EXPECT_EQ(ranks_of(*mesh, "dp"), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(ranks_of(*mesh, "dp_shard_cp"), to_ranks({5, 7}));
  EXPECT_EQ(mesh->get_local_rank("dp_cp").value, 2);
}

// docs/dialects/nemo.md shows this.
TEST_F(NemoMesh, TheExampleOfItsPage) {
  act_as(5, 16);
  const FSDP2Config config{.sequence_parallel = true};
  const auto [device_mesh, moe_mesh] = create_device_mesh(
      config, {.dp_replicate_size = 2, .tp_size = 2, .pp_size = 2, .ep_size = 2}, 16);
  EXPECT_EQ(device_mesh->to_string(),
            "DeviceMesh(pp=2, dp_replicate=2, dp_shard=2, cp=1, tp=2) over ranks 0-15");
  EXPECT_EQ(moe_mesh->to_string(),
            "DeviceMesh(pp=2, ep_shard=2, ep=2) over ranks 1,3,5,7,9,11,13,15");
  EXPECT_EQ(ranks_of(*device_mesh, "dp_cp"), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(get_submesh(*device_mesh, {"pp", "dp"}).shape(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(get_fsdp_dp_mesh(*device_mesh).axis_names(), (AxisNames{"dp_replicate", "dp_shard"}));
}

TEST_F(NemoMesh, DDPHasNone) {
  act_as(0, 8);
  const auto [mesh, moe] = create_device_mesh(DDPConfig{}, {}, 8);
  EXPECT_FALSE(mesh);
  EXPECT_FALSE(moe);
}

TEST_F(NemoMesh, EveryTpRankHasADocumentedMoeMesh) {
  act_as(11, 16);
  const ParallelismSizes sizes{.tp_size = 2, .pp_size = 2, .ep_size = 2};
  const DeviceMesh moe = *create_device_mesh(FSDP2Config{}, sizes, 16).second;
  EXPECT_EQ(moe.axis_names(), (AxisNames{"pp", "ep_shard", "ep"}));
  EXPECT_EQ(moe.layout().ranks(), to_ranks({1, 3, 5, 7, 9, 11, 13, 15}));
  EXPECT_EQ(ranks_of(moe, "ep"), to_ranks({9, 11}));
  EXPECT_EQ(_create_moe_mesh(2, 2, 2, "nccl"), moe);
}

TEST_F(NemoMesh, TodaysMoeMeshIsOfOneStage) {
  act_as(11, 16);
  const auto [mesh, moe] = create_device_mesh(
      FSDP2Config{}, {.tp_size = 2, .pp_size = 2, .ep_size = 4}, 16, {.moe_mesh = MoeMesh::kToday});
  EXPECT_EQ(moe->axis_names(), (AxisNames{"ep_shard", "ep"}));
  EXPECT_EQ(ranks_of(*moe, "ep"), to_ranks({8, 9, 10, 11}));
  EXPECT_EQ(get_flat_mesh(*mesh, "dp_replicate_dp_shard_cp_tp").size(), 8);
}

TEST_F(NemoMesh, ThePagesPartsGiveTheSame) {
  act_as(3, 8);
  const auto both =
      create_device_mesh(FSDP2Config{}, {.tp_size = 2, .pp_size = 2, .ep_size = 2}, 8);
  EXPECT_EQ(_create_fsdp2_device_mesh(std::nullopt, std::nullopt, 2, 2, 1, 2, 8, "nccl"), both);
  const auto megatron = create_device_mesh(MegatronFSDPConfig{}, {.cp_size = 2}, 8);
  EXPECT_EQ(_create_megatron_fsdp_device_mesh(std::nullopt, 1, 2, 8, "nccl"), megatron.first);
  EXPECT_FALSE(megatron.second);
}

TEST_F(NemoMesh, ListedRanksMakeTheMesh) {
  const MeshOptions options{.ranks = std::vector<int64_t>{6, 2, 5, 1}};
  act_as(2, 8);
  const DeviceMesh mesh = *create_device_mesh(FSDP2Config{}, {.tp_size = 2}, 4, options).first;
  EXPECT_EQ(ranks_of(mesh, "tp"), to_ranks({6, 2}));
  EXPECT_EQ(mesh.get_local_rank("tp").value, 1);
  act_as(0, 8);
  const auto outside = create_device_mesh(FSDP2Config{}, {.tp_size = 2, .ep_size = 2}, 4, options);
  EXPECT_FALSE(outside.first->is_member());
  EXPECT_FALSE(outside.second->is_member());
  EXPECT_THROW((void)get_flat_mesh(*outside.first, "dp"), StateError);
}

TEST_F(NemoMesh, GroupsHaveTheTimeOut) {
  act_as(0, 8);
  const auto [mesh, moe] =
      create_device_mesh(FSDP2Config{}, {.tp_size = 2, .ep_size = 2}, 8, {.timeout_minutes = 3});
  for (const char* axis : {"tp", "dp", "dp_cp"}) {
    EXPECT_EQ(mesh->get_group(axis).timeout(), std::chrono::minutes(3)) << axis;
  }
  EXPECT_EQ(moe->get_group("ep").timeout(), std::chrono::minutes(3));
}

TEST_F(NemoMesh, AFlattenedAxisIsFoundFromAnySlice) {
  act_as(5, 8);
  const DeviceMesh mesh = *create_device_mesh(FSDP2Config{}, {.tp_size = 2}, 8).first;
  EXPECT_EQ(get_flat_mesh(mesh.slice({"tp"}), "dp"), get_flat_mesh(mesh, "dp"));
  EXPECT_NE(refusal([&] { (void)get_flat_mesh(mesh, "ep"); }).find("has no axis 'ep'"),
            std::string::npos);
  EXPECT_NE(refusal([&] { (void)get_flat_mesh(mesh.slice({"tp"}), "cp"); }).find("no axis 'cp'"),
            std::string::npos);
}

TEST_F(NemoMesh, SubMeshesTakeAxesInAnyOrder) {
  act_as(5, 8);
  const DeviceMesh mesh = *create_device_mesh(FSDP2Config{}, {.tp_size = 2, .pp_size = 2}, 8).first;
  const DeviceMesh stages = get_submesh(mesh, {"pp", "dp"});  // The peer cannot find this one.
  EXPECT_EQ(stages.layout().ranks(), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(get_submesh(mesh, {"tp", "dp_cp"}).layout().ranks(), to_ranks({4, 6, 5, 7}));
  EXPECT_EQ(get_submesh(mesh, {"tp"}), get_flat_mesh(mesh, "tp"));
  EXPECT_NE(
      refusal([&] { (void)get_submesh(mesh, {"dp", "dp_shard"}); }).find("overlap in their ranks"),
      std::string::npos);
  EXPECT_THROW((void)get_submesh(mesh, {}), ConfigError);
}

TEST_F(NemoMesh, FSDPShardsOverWhatIsThere) {
  act_as(5, 16);
  const auto axes = [](const ParallelismSizes& sizes) {
    return get_fsdp_dp_mesh(*create_device_mesh(FSDP2Config{}, sizes, 16).first).axis_names();
  };
  EXPECT_EQ(axes({}), AxisNames{"dp_shard"});
  EXPECT_EQ(axes({.cp_size = 2}), AxisNames{"dp_shard_cp"});
  EXPECT_EQ(axes({.dp_replicate_size = 2}), (AxisNames{"dp_replicate", "dp_shard"}));
  EXPECT_EQ(axes({.dp_replicate_size = 2, .cp_size = 2}),
            (AxisNames{"dp_replicate", "dp_shard_cp"}));
  const DeviceMesh megatron = *create_device_mesh(MegatronFSDPConfig{}, {}, 16).first;
  EXPECT_NE(refusal([&] { (void)get_fsdp_dp_mesh(megatron); }).find("'dp_replicate'"),
            std::string::npos);
}

TEST_F(NemoMesh, RingAndUlyssesShareCp) {
  act_as(5, 16);
  const DeviceMesh mesh =
      *create_device_mesh(FSDP2Config{}, {.tp_size = 2, .cp_size = 4}, 16).first;
  const DeviceMesh cut = create_ring_ulysses_mesh(mesh, 2, 2);
  EXPECT_EQ(ranks_of(cut, "ring"), to_ranks({1, 5}));
  EXPECT_EQ(ranks_of(cut, "ulysses"), to_ranks({5, 7}));
  EXPECT_EQ(refusal([&] { (void)create_ring_ulysses_mesh(mesh, 2, 4); }),
            "axis 'cp' of size 4 cannot be split into parts whose product is 8; the product of the "
            "parts must be the size of the axis");
}

TEST_F(NemoMesh, ContradictionsAreRefused) {
  act_as(0, 8);
  EXPECT_EQ(refusal([] { (void)create_device_mesh(FSDP2Config{}, {}, 4); }),
            "world_size 4 contradicts the current world of 8 ranks; pass that number, or leave it "
            "out");
  const MeshOptions three{.ranks = std::vector<int64_t>{0, 1, 2}};
  EXPECT_EQ(refusal([&] { (void)create_device_mesh(FSDP2Config{}, {}, 4, three); }),
            "world_size 4 contradicts the list of 3 ranks; pass that number, or leave it out");
  EXPECT_EQ(refusal([] { (void)_create_moe_mesh(1, 3, 1, "nccl"); }),
            "world size 8 is not divisible by pp_size·ep_shard_size·ep_size = 3 (pp_size=1, "
            "ep_shard_size=3, ep_size=1); nearest world sizes: 6, 9");
  EXPECT_THROW((void)_create_moe_mesh(1, 8, 1, "mpi"), ConfigError);
}

TEST_F(NemoMesh, WithoutAWorldThereIsNone) {
  World::clear_current();
  EXPECT_THROW((void)create_device_mesh(FSDP2Config{}, {}), StateError);
  EXPECT_THROW((void)_create_moe_mesh(1, 1, 1, "nccl"), StateError);
}

}  // namespace
}  // namespace tessera::nemo

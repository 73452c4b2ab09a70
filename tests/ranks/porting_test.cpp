// Lines of programs ported from Python: each compiles and has the same meaning. Lines that must not
// compile are in tests/e2e/porting_errors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/megatron/parallel_state.h"
#include "tessera/dialect/nemo/mesh_utils.h"
#include "tessera/dialect/olmo/parallel.h"
#include "tessera/dialect/olmo/tensors.h"
#include "tessera/dialect/olmo/utils.h"
#include "tests/ranks/fresh_world.h"
#include "tests/testkit/ranks.h"

namespace porting {
namespace {

using namespace tessera;
using namespace tessera::olmo;
using namespace tessera::nemo;
using namespace tessera::megatron;

using testkit::in_fresh_world;
using testkit::run_ranks;

template <class Value>
std::string printed(const Value& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

class Porting : public ::testing::Test {
 protected:
  void SetUp() override { World::make_current(World::fake(GlobalRank{5}, 8)); }
  void TearDown() override { World::clear_current(); }
  static const World& world() { return *World::current(); }
};

TEST(PortingRanks, PlainNumbersAndRoots) {
  run_ranks(2, [](World&) {
    in_fresh_world([](World& world) {
      const Group group = world.group();
      RANK_EXPECT(all_reduce_value(1) == 2);
      RANK_EXPECT(all_reduce_value(1, at::kCPU) == 2);
      RANK_EXPECT(all_reduce_value(0.5F) == 1.0);
      RANK_EXPECT(all_reduce_value(group.rank() == 0)) << "any of them";
      RANK_EXPECT(all_reduce_value(size_t{3}, at::kCPU, ReduceOp::kMax) == 3);
      const int mine = group.rank() == 0 ? 7 : 8;
      RANK_EXPECT(synchronize_value(mine) == 7);
      RANK_EXPECT(synchronize_value(mine, at::kCPU, 1) == 8);
      RANK_EXPECT(synchronize_flag(mine == 7));

      int64_t sum = 0;
      for (const int64_t rank : to_integers(group.ranks())) sum += rank;
      for (const GlobalRank rank : group.ranks()) sum += rank.value;
      RANK_EXPECT(sum == 2);

      const at::Tensor x = at::full({1}, static_cast<double>(mine));
      broadcast(x, GlobalRank{1}, group).wait();
      RANK_EXPECT(x.item<double>() == 8);
      broadcast(x, GroupRank{0}, group).wait();
      RANK_EXPECT(broadcast_object(mine, 1) == 8);
      RANK_EXPECT(all_gather_object(mine) == (std::vector<int>{7, 8}));
      barrier();
    });
  });
}

TEST_F(Porting, ShapesAndAxes) {
  const DeviceMesh mesh = init_device_mesh(world(), {2, 4}, {"dp", "tp"});
  EXPECT_EQ(mesh.shape(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(mesh["tp"], mesh.slice({"tp"}));
  EXPECT_EQ((mesh[{"tp", "dp"}].axis_names()), (AxisNames{"tp", "dp"}));
  EXPECT_EQ(mesh[MeshDimName::dp].size(), 2);
  EXPECT_EQ(mesh.get_group(MeshDimName::tp), mesh.get_group("tp"));
  EXPECT_EQ(mesh.get_group(1), mesh.get_group(std::string("tp")));
  EXPECT_EQ(mesh.size(MeshDimName::tp), 4);
  EXPECT_TRUE(mesh.get_local_rank("tp") == 1);
  EXPECT_THROW(mesh["pp"], ConfigError);
  EXPECT_THROW(mesh.get_group(MeshDimName::cp), ConfigError);
  EXPECT_THROW(mesh.get_group(2), ConfigError);
}

TEST_F(Porting, EverythingPrints) {
  const DeviceMesh mesh = init_device_mesh(world(), {2, 4}, {"dp", "tp"});
  EXPECT_EQ(printed(mesh), "DeviceMesh(dp=2, tp=4) over ranks 0-7");
  EXPECT_EQ(printed(mesh.layout()), "[dp=2:4 tp=4:1]");
  EXPECT_EQ(printed(mesh["dp"].get_group()), "mesh_dp: 1 5");
  EXPECT_EQ(printed(world().rank()), "5");
  EXPECT_EQ(printed(Shard{0}), "S(0)");
  EXPECT_EQ(printed(Replicate{}), "R");
  EXPECT_EQ(printed(Partial{}), "P(sum)");
  EXPECT_EQ(printed(StridedShard{0, 2}), "SS(0,2)");
  EXPECT_EQ(printed(Placement(Shard{1})), "S(1)");
  EXPECT_EQ(printed(std::vector<Placement>{Shard{0}, Replicate{}}), "S(0), R");
  EXPECT_EQ(printed(ReduceOp::kMax), "max");
  EXPECT_EQ(printed(MeshDimName::tp), "tp");
}

// The examples in the documentation.

TEST_F(Porting, NemosExampleInItsOrder) {
  const FSDP2Config config{.sequence_parallel = true};
  const auto [device_mesh, moe_mesh] = create_device_mesh(
      config, ParallelismSizes().with_tp_size(2).with_pp_size(1).with_dp_replicate_size(2), 8);
  EXPECT_EQ(device_mesh->shape(), (std::vector<int64_t>{1, 2, 2, 1, 2}));
  EXPECT_FALSE(moe_mesh.has_value());
  EXPECT_EQ(ParallelismSizes().with_ep_size(4).with_cp_size(3).with_dp_size(2),
            (ParallelismSizes{.dp_size = 2, .cp_size = 3, .ep_size = 4}));
}

TEST_F(Porting, OlmosExampleOfShapesAndOffsets) {
  const DeviceMesh mesh = init_device_mesh(world(), {2, 4}, {"host", "gpu"});
  for (int64_t rank = 0; rank < 8; ++rank) {
    const auto [local_shape, global_offset] =
        compute_local_shape_and_global_offset({8, 4}, mesh, {Shard{0}, Shard{0}}, rank);
    EXPECT_EQ(local_shape, (std::vector<int64_t>{1, 4}));
    EXPECT_EQ(global_offset, (std::vector<int64_t>{rank, 0}));
  }
  const std::vector<int64_t> shape{8, 4};
  EXPECT_EQ(compute_local_shape_and_global_offset(shape, mesh, {Shard{0}}).offset[0], 4);
}

TEST_F(Porting, OlmosMeshes) {
  const DeviceMesh mesh = build_world_mesh(
      {.dp = {{.name = DataParallelType::hsdp, .num_replicas = 2}}, .tp = {{.degree = 2}}});
  EXPECT_EQ(get_device_mesh_info(mesh),
            "3D device mesh with shape (dp_replicate=2, dp_shard=2, tp=2)");
  EXPECT_EQ(get_tp_mesh(mesh), mesh[MeshDimName::tp]);
  EXPECT_EQ(get_dp_mesh(mesh), (mesh[{"dp_replicate", "dp_shard"}]));
}

TEST(PortingMegatron, ItsExampleOfSixteenRanks) {
  World::make_current(World::fake(GlobalRank{6}, 16));
  initialize_model_parallel({.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4});
  EXPECT_EQ(printed(get_tensor_model_parallel_group()), "TENSOR_MODEL_PARALLEL_GROUP: 6 7");
  EXPECT_EQ(to_integers(get_pipeline_model_parallel_group().ranks()),
            (std::vector<int64_t>{2, 6, 10, 14}));
  EXPECT_EQ(to_integers(get_data_parallel_group().ranks()), (std::vector<int64_t>{4, 6}));
  World::clear_current();
  const auto groups = generate_masked_orthogonal_rank_groups(24, {2, 3, 4}, {false, true, false});
  EXPECT_EQ(groups.front(), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(groups.back(), (std::vector<int64_t>{19, 21, 23}));
}

}  // namespace
}  // namespace porting

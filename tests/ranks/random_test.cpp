// Sharded tensors on real ranks: with any number of ranks and any placements, the values are those
// of one process.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tessera/tensor/dropout.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/random.h"
#include "tessera/tensor/sharded_flat_tensor.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::here;

using Shape = std::vector<int64_t>;
using testkit::run_ranks;

const Shape kShape{5, 10};  // Over four ranks: 2, 2, 1 and no rows.
const RandomKey kKey{.seed = 3, .name = "layers.1.w2"};

at::Tensor whole(const Distribution& distribution) {
  const at::Tensor tensor = at::empty(kShape, here());
  init_(tensor, Box{kShape, {0, 0}}, kShape, kKey, distribution);
  return tensor;
}

DTensor placed(const DeviceMesh& mesh, const Placements& placements) {
  const Box box = compute_local_shape_and_global_offset(kShape, mesh, placements);
  return DTensor::from_local(at::zeros(box.shape, here()), mesh, placements, {.shape = kShape});
}

void check_placements(const DeviceMesh& mesh, const Placements& placements) {
  for (const Distribution& distribution :
       std::vector<Distribution>{Normal{0, 0.02}, TruncatedNormal{}, Uniform{-1, 1}}) {
    const DTensor tensor = placed(mesh, placements);
    init_(tensor, kKey, distribution);
    RANK_EXPECT(tensor.full_tensor().equal(whole(distribution))) << tensor;
  }
}

void check_dropout(const DeviceMesh& mesh, const Placements& placements) {
  const DTensor x = placed(mesh, placements);
  init_(x, kKey, Normal{});
  const at::Tensor expected = dropout(whole(Normal{}), Box{kShape, {0, 0}}, kShape, kKey, 0.3);
  RANK_EXPECT(dropout(x, kKey, 0.3).full_tensor().equal(expected)) << x;
}

std::vector<Placements> placements_of(int64_t num_axes) {
  if (num_axes == 1) return {{Shard{0}}, {Shard{1}}, {Replicate{}}, {StridedShard{1, 2}}};
  return {{Shard{0}, Shard{1}},    {Shard{1}, Shard{1}},           {Replicate{}, Shard{0}},
          {Shard{1}, Replicate{}}, {StridedShard{0, 2}, Shard{0}}, {Replicate{}, Replicate{}}};
}

void check_mesh(const DeviceMesh& mesh) {
  for (const Placements& placements : placements_of(mesh.ndim())) {
    check_placements(mesh, placements);
    check_dropout(mesh, placements);
  }
}

void check_flat(const World& world) {
  const at::Tensor anything = at::zeros(kShape, here());
  const ShardedFlatTensor tensor = ShardedFlatTensor::shard(anything, world.group());
  init_(tensor, kKey, Normal{});
  RANK_EXPECT(tensor.gather().equal(whole(Normal{})));
}

// The gradient of a sharded dropout is zero where the value is zero, and has the same scale.
void check_gradient(const DeviceMesh& mesh) {
  const Box box = compute_local_shape_and_global_offset(kShape, mesh, Placements{Shard{1}});
  const at::Tensor local = at::ones(box.shape, here()).set_requires_grad(true);
  const DTensor x = DTensor::from_local(local, mesh, {Shard{1}}, {.shape = kShape});
  const at::Tensor y = dropout(x, kKey, 0.3).to_local();
  y.sum().backward();
  RANK_EXPECT(local.grad().equal(y.detach())) << local.grad();
}

TEST(RandomOnRanks, TwoRanksHaveTheValuesOfOneProcess) {
  run_ranks(2, [](World& world) {
    const DeviceMesh mesh(world, Layout::row_major({{"dp", 2}}));
    check_mesh(mesh);
    check_gradient(mesh);
    check_flat(world);
  });
}

TEST(RandomOnRanks, FourRanksHaveTheValuesOfOneProcess) {
  run_ranks(4, [](World& world) {
    check_mesh(DeviceMesh(world, Layout::row_major({{"dp", 4}})));
    check_mesh(DeviceMesh(world, Layout::row_major({{"dp", 2}, {"tp", 2}})));
    check_flat(world);
  });
}

TEST(RandomOnRanks, SixRanksHaveTheValuesOfOneProcess) {
  run_ranks(6, [](World& world) {
    check_mesh(DeviceMesh(world, Layout::row_major({{"dp", 3}, {"tp", 2}})));
    check_flat(world);
  });
}

}  // namespace
}  // namespace tessera

// A user's program on two ranks, built without NDEBUG: its asserts run, and groups, tensors and
// gradients give what they give in a release build.
#include <ATen/ATen.h>

#include <cassert>

#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/tensor/dtensor.h"

#ifdef NDEBUG
#error "NDEBUG is the user's choice, not the library's"
#endif

namespace {

using namespace tessera;

void reduces(const World& world) {
  const at::Tensor mine = at::full({4}, world.rank().value + 1, at::kLong);
  const at::Tensor sum = all_reduce(mine, world.group()).wait();
  assert(sum.equal(at::full({4}, 3, at::kLong)));
}

void shards(World& world) {
  const DeviceMesh mesh(world, Layout::row_major({{"dp", 2}}));
  const at::Tensor whole = at::arange(10).reshape({5, 2});
  const DTensor rows = distribute_tensor(whole, mesh, {Shard{0}});
  assert(rows.to_local().size(0) == (world.rank().value == 0 ? 3 : 2));
  assert(rows.full_tensor().equal(whole));
}

void averages_gradients(const World& world) {
  const at::Tensor weight = at::ones({3}).set_requires_grad(true);
  const Ddp ddp({{{"weight", weight}}}, world.group());
  (weight * static_cast<double>(world.rank().value)).sum().backward();
  assert(weight.grad().equal(at::full({3}, 0.5)));
}

}  // namespace

int main() {
  World world = World::connect({.backend = Backend::kGloo});
  assert(world.size() == 2);
  reduces(world);
  shards(world);
  averages_gradients(world);
  world.close();
}

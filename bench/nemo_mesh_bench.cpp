// One rank's share of NeMo's device meshes in a fake world: what peers/nemo_mesh.py times, step by
// step.
#include <benchmark/benchmark.h>

#include "tessera/dialect/nemo/mesh_utils.h"

namespace tessera::nemo {
namespace {

ParallelismSizes sizes_for(int64_t world) {
  const bool small = world < 256;  // Eights, cp 2 and two replicas need 256 ranks.
  return {.dp_replicate_size = 2,
          .tp_size = small ? 4 : 8,
          .pp_size = small ? 2 : 8,
          .cp_size = 2,
          .ep_size = 8};
}

int64_t ask_helpers(const DeviceMesh& mesh) {
  int64_t sum = 0;
  for (const char* name :
       {"pp", "dp_replicate", "dp_shard", "cp", "tp", "dp", "dp_shard_cp", "dp_cp"}) {
    sum += get_flat_mesh(mesh, name).get_group().size();
  }
  return sum + get_submesh(mesh, {"dp_replicate", "dp_shard_cp"}).size() +
         get_submesh(mesh, {"dp", "cp"}).size() + get_fsdp_dp_mesh(mesh).size() +
         create_ring_ulysses_mesh(mesh, 2, 1).size();
}

// Worlds are made anew each time: in a used one the communicators exist already.
World& fresh_world(int64_t size) {
  World::clear_current();
  return World::make_current(World::fake(GlobalRank{0}, size));
}

void MeshesAndHelpers(benchmark::State& timing) {
  const int64_t size = timing.range(0);
  const ParallelismSizes sizes = sizes_for(size);
  for (auto _ : timing) {
    fresh_world(size);
    const auto [mesh, experts] =
        create_device_mesh(FSDP2Config{}, sizes, size, {.moe_mesh = MoeMesh::kToday});
    benchmark::DoNotOptimize(ask_helpers(*mesh) + experts->get_group("ep").size());
  }
}

void MeshAlone(benchmark::State& timing) {
  const int64_t size = timing.range(0);
  const auto [dp, replicate, tp, pp, cp, ep] = sizes_for(size);
  const std::vector<int64_t> shape{pp, *replicate, size / (pp * *replicate * cp * tp), cp, tp};
  const AxisNames names{"pp", "dp_replicate", "dp_shard", "cp", "tp"};
  for (auto _ : timing) {
    const DeviceMesh mesh = init_device_mesh(fresh_world(size), shape, names);
    benchmark::DoNotOptimize(mesh.get_group("tp").size());
  }
}

void at_all_sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(64)->Arg(1'024)->Arg(16'384)->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(MeshesAndHelpers)->Apply(at_all_sizes);
BENCHMARK(MeshAlone)->Apply(at_all_sizes);

}  // namespace
}  // namespace tessera::nemo

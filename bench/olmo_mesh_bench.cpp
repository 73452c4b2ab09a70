// One rank's share of OLMo's build_world_mesh in a fake world, and everything that the accessors
// then give: what peers/olmo_mesh.py times, step by step.
#include <benchmark/benchmark.h>

#include "tessera/dialect/olmo/parallel.h"

namespace tessera::olmo {
namespace {

WorldMeshConfig config_for(int64_t world) {
  const bool small = world < 1'024;  // Eights and cp 2 leave too few ranks.
  return {.dp = DataParallelConfig{.name = DataParallelType::hsdp, .shard_degree = small ? 2 : 4},
          .tp = TensorParallelConfig{.degree = small ? 4 : 8},
          .cp = ContextParallelConfig{.degree = 2},
          .pp = PipelineParallelConfig{.degree = small ? 4 : 8}};
}

int64_t ask_all(const DeviceMesh& mesh) {
  int64_t sum = get_dp_process_group(mesh).size();
  for (const auto accessor : {get_dp_mesh, get_dp_model_mesh, get_dp_replicate_mesh, get_tp_mesh,
                              get_cp_mesh, get_pp_mesh, get_ep_mesh}) {
    sum += accessor(mesh).size();
  }
  const DeviceMesh stage = get_pp_stage_mesh(mesh);
  return sum + stage.size() + flatten_mesh(stage).size() +
         static_cast<int64_t>(get_device_mesh_info(mesh).size());
}

// The world is made anew each time: in a used one the communicators exist already.
void BuildAndAskAll(benchmark::State& timing) {
  const int64_t size = timing.range(0);
  const WorldMeshConfig config = config_for(size);
  for (auto _ : timing) {
    World::make_current(World::fake(GlobalRank{0}, size));
    benchmark::DoNotOptimize(ask_all(build_world_mesh(config, "cpu")));
    World::clear_current();
  }
}
BENCHMARK(BuildAndAskAll)
    ->Arg(64)
    ->Arg(1'024)
    ->Arg(16'384)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera::olmo

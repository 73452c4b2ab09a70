// How long Megatron's plans and their groups take: tp 8, pp 8, cp 2, ep 8.
#include <benchmark/benchmark.h>

#include "tessera/plan/megatron/plan.h"

namespace tessera {
namespace {

MegatronConfig config() {
  return {.tensor_model_parallel_size = 8,
          .pipeline_model_parallel_size = 8,
          .context_parallel_size = 2,
          .expert_model_parallel_size = 8,
          .create_gloo_process_groups = false};
}

// Every group that the arguments can ask for.
MegatronConfig every_group() {
  MegatronConfig all = config();
  all.hierarchical_context_parallel_sizes = {2};
  all.num_distributed_optimizer_instances = 2;
  all.create_gloo_process_groups = true;
  all.hybrid_context_parallel = true;
  all.create_all_gather_group = true;
  return all;
}

// From the arguments to every group of one rank, as a process does at its start.
void one_rank(benchmark::State& state, const MegatronConfig& config) {
  const int64_t world = state.range(0);
  int64_t rank = 0;
  for (auto _ : state) {
    const Plan plan = megatron_plan(world, config);
    benchmark::DoNotOptimize(plan.groups_of(GlobalRank{rank}));
    rank = (rank + 4099) % world;
  }
}

void EveryGroupOfOneRank(benchmark::State& state) {
  one_rank(state, config());
}
BENCHMARK(EveryGroupOfOneRank)
    ->Arg(1'024)
    ->Arg(16'384)
    ->Arg(65'536)
    ->Arg(1'048'576)
    ->Unit(benchmark::kMicrosecond);

void EveryGroupOfOneRankWithAllOptions(benchmark::State& state) {
  one_rank(state, every_group());
}
BENCHMARK(EveryGroupOfOneRankWithAllOptions)
    ->Arg(16'384)
    ->Arg(65'536)
    ->Unit(benchmark::kMicrosecond);

// The plan alone: the size of the world must not matter.
void PlanAlone(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(megatron_plan(state.range(0), config()));
}
BENCHMARK(PlanAlone)->Arg(1'024)->Arg(1'048'576)->Unit(benchmark::kMicrosecond);

// All groups of all ranks, as lists, in the order of creation.
void AllGroupsOfAllRanks(benchmark::State& state) {
  int64_t count = 0;
  for (auto _ : state) {
    count = 0;
    megatron_plan(state.range(0), config())
        .for_each_group([&](const GroupSpec&, const RankGroup& ranks) {
          benchmark::DoNotOptimize(ranks.data());
          ++count;
        });
  }
  state.counters["groups"] = static_cast<double>(count);
}
BENCHMARK(AllGroupsOfAllRanks)->Arg(16'384)->Unit(benchmark::kMillisecond);

// One tensor-parallel group of eight: the size of the world must not matter.
void OneGroupOfEight(benchmark::State& state) {
  const Plan plan = megatron_plan(state.range(0), config());
  const Layout& decoder = plan.layout("decoder");
  int64_t rank = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(decoder.group_of(GlobalRank{rank}, {"tp"}));
    rank = (rank + 4099) % state.range(0);
  }
}
BENCHMARK(OneGroupOfEight)->Arg(1'024)->Arg(16'384)->Arg(1'048'576)->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace tessera

// How long the groups of a Megatron layout take: tp 8, pp 8, cp 2, ep 8, all 17 kinds.
#include <benchmark/benchmark.h>

#include "tessera/plan/megatron.h"

namespace tessera {
namespace {

MegatronSizes sizes(int64_t world) {
  return {.world = world, .tp = 8, .pp = 8, .cp = 2, .ep = 8};
}

// From the sizes to every group of one rank, as a process does at its start.
void EveryGroupOfOneRank(benchmark::State& state) {
  int64_t rank = 0;
  for (auto _ : state) {
    const MegatronGroups groups = megatron_groups(sizes(state.range(0)));
    for (const GroupKind& kind : groups.kinds) {
      benchmark::DoNotOptimize(kind.group_of({rank}));
    }
    rank = (rank + 4099) % state.range(0);
  }
}
BENCHMARK(EveryGroupOfOneRank)->Arg(16'384)->Arg(1'048'576)->Unit(benchmark::kMicrosecond);

// All groups of all ranks, as lists.
void AllGroupsOfAllRanks(benchmark::State& state) {
  int64_t count = 0;
  for (auto _ : state) {
    const MegatronGroups groups = megatron_groups(sizes(state.range(0)));
    count = 0;
    for (const GroupKind& kind : groups.kinds) {
      const auto lists = kind.groups();
      count += static_cast<int64_t>(lists.size());
      benchmark::DoNotOptimize(lists.data());
    }
  }
  state.counters["groups"] = static_cast<double>(count);
}
BENCHMARK(AllGroupsOfAllRanks)->Arg(16'384)->Unit(benchmark::kMillisecond);

// One tensor-parallel group of eight: the size of the world must not matter.
void OneGroupOfEight(benchmark::State& state) {
  const MegatronGroups groups = megatron_groups(sizes(state.range(0)));
  int64_t rank = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(groups.decoder.group_of({rank}, {"tp"}));
    rank = (rank + 4099) % state.range(0);
  }
}
BENCHMARK(OneGroupOfEight)->Arg(1'024)->Arg(16'384)->Arg(1'048'576)->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace tessera

// One rank of our side in the comparison of peers/torch_dtensor.py, which starts all ranks:
//
//   dtensor_ranks transfer|overhead FOLDER
//
// Rank 0 prints its figures as one line of JSON. What is timed here is timed there, step by step.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/base/text.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/tensor/dtensor.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFakeRanks = 4;
constexpr int64_t kTiny = 8;  // Rows and columns.
constexpr int kCalls = 2000;

struct Transition {
  const char* name;
  Placement from;
  Placement to;
};
const std::vector<Transition> kTransitions{{"shard0_to_replicate", Shard{0}, Replicate{}},
                                           {"shard0_to_shard1", Shard{0}, Shard{1}},
                                           {"partial_to_shard0", Partial{}, Shard{0}}};

DTensor source(const DeviceMesh& mesh, int64_t rows, int64_t columns, const Placement& from) {
  const bool whole = std::holds_alternative<Partial>(from);
  const at::Tensor local = at::ones({whole ? rows : rows / mesh.size(), columns});
  return DTensor::from_local(local, mesh, {from});
}

// The best run, of which the slowest rank counts.
double best_time(int runs, const World& world, const std::function<void()>& body) {
  body();
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    barrier(world.group());
    const double start = bench::now();
    body();
    best = std::min(best, bench::slowest_rank(bench::now() - start, world));
  }
  return best;
}

Json measure_transfer(const LaunchInfo& launch) {
  World world = World::connect(launch, {.backend = Backend::kGloo});
  const DeviceMesh mesh(world, Layout::row_major({{"tp", world.size()}}));
  Json figures;
  for (const auto& [mebibytes, rows] : {std::pair<int, int64_t>{1, 512}, {64, 4096}}) {
    const int64_t columns = mebibytes * 1024 * 1024 / 4 / rows;
    for (const Transition& transition : kTransitions) {
      const DTensor tensor = source(mesh, rows, columns, transition.from);
      const double seconds = best_time(mebibytes == 1 ? 30 : 5, world,
                                       [&] { (void)tensor.redistribute({transition.to}); });
      figures[concat(transition.name, "_", mebibytes, "mib_ms")] = seconds * 1e3;
    }
  }
  world.close();
  return figures;
}

Json measure_overhead(const LaunchInfo& /*launch*/) {
  const World world = World::fake(GlobalRank{0}, kFakeRanks);
  const DeviceMesh mesh(world, Layout::row_major({{"tp", kFakeRanks}}));
  Json figures;
  for (const Transition& transition : kTransitions) {
    const DTensor tensor = source(mesh, kTiny, kTiny, transition.from);
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      const double start = bench::now();
      for (int i = 0; i < kCalls; ++i) (void)tensor.redistribute({transition.to});
      best = std::min(best, (bench::now() - start) / kCalls);
    }
    figures[concat(transition.name, "_call_us")] = best * 1e6;
  }
  return figures;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  return tessera::bench::rank_main(
      {arguments, static_cast<size_t>(count)},
      {{"transfer", tessera::measure_transfer}, {"overhead", tessera::measure_overhead}});
}

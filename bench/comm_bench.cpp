// One rank of our side in the comparison of peers/torch_comm.py, which starts all ranks:
//
//   comm_ranks setup|transfer FOLDER
//
// Rank 0 prints its figures as one line of JSON. What is timed here is timed there, step by step.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/world.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using bench::now;
using bench::slowest_rank;

constexpr size_t kPairs = 20;
constexpr int64_t kSmall = 1024;              // 4 KiB of fp32.
constexpr int64_t kLarge = 16 * 1024 * 1024;  // 64 MiB of fp32.

// Neighbours first, then those two apart, and so on: every rank is in about equally many.
std::vector<GroupRequest> rank_pairs(int64_t world_size) {
  std::vector<GroupRequest> pairs;
  for (int64_t distance = 1; pairs.size() < kPairs; ++distance) {
    for (int64_t rank = 0; rank < world_size && pairs.size() < kPairs; ++rank) {
      const auto [low, high] = std::minmax({rank, (rank + distance) % world_size});
      pairs.push_back({.ranks = {GlobalRank{low}, GlobalRank{high}}});
    }
  }
  return pairs;
}

// Groups connect when they are first used, if not before: only then is the work done.
void use(const Group& group) {
  all_reduce(at::zeros({1}), group).wait();
}

Json measure_setup(const LaunchInfo& launch) {
  const double start = now();
  World world = World::connect(launch, {.backend = Backend::kGloo});
  for (const Group& group : world.make_groups(rank_pairs(launch.world_size))) {
    if (group.is_member()) use(group);
  }
  const double pairs_end = now();
  use(world.group());  // Which the peer connects first, and we only now.
  const double world_end = now();
  const Json figures{{"setup_s", slowest_rank(pairs_end - start, world)},
                     {"setup_and_world_s", slowest_rank(world_end - start, world)}};
  world.close();
  return figures;
}

std::vector<double> sorted_times(int warm_ups, int runs, const std::function<void()>& body) {
  for (int i = 0; i < warm_ups; ++i) body();
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const double start = now();
    body();
    times.push_back(now() - start);
  }
  std::ranges::sort(times);
  return times;
}

Json measure_transfer(const LaunchInfo& launch) {
  World world = World::connect(launch, {.backend = Backend::kGloo});
  const Group group = world.group();
  const at::Tensor small = at::zeros({kSmall});
  const at::Tensor large = at::zeros({kLarge});
  const auto latencies = sorted_times(200, 2000, [&] { all_reduce(small, group).wait(); });
  const auto durations = sorted_times(1, 5, [&] { all_reduce(large, group).wait(); });
  const auto bytes = static_cast<double>(large.nbytes());
  world.close();
  return {{"latency_us", latencies[latencies.size() / 2] * 1e6},
          {"bandwidth_gb_s", bytes / durations.front() / 1e9}};
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  return tessera::bench::rank_main(
      {arguments, static_cast<size_t>(count)},
      {{"setup", tessera::measure_setup}, {"transfer", tessera::measure_transfer}});
}

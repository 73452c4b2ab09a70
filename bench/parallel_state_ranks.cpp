// One rank of our side in the comparison of peers/megatron_parallel_state.py, which starts all:
//
//   parallel_state_ranks initialise FOLDER
//
// Rank 0 prints its figures as one line of JSON. What is timed here is timed there, step by step.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <nlohmann/json.hpp>
#include <string>

#include "bench/rank_timing.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/megatron/parallel_state.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using bench::now;
using bench::slowest_rank;

Json measure(const LaunchInfo& launch) {
  const double start = now();
  World world = World::connect(launch, {.backend = Backend::kGloo});
  barrier(world.group());
  const double connected = now();
  megatron::ParallelState state(world);
  state.initialize_model_parallel({.tensor_model_parallel_size = 2,
                                   .pipeline_model_parallel_size = 2,
                                   .expert_model_parallel_size = 2,
                                   .create_gloo_process_groups = false});
  const double initialised = now();
  for (const Group& group : state.groups()) all_reduce(at::zeros({1}), group).wait();
  const double used = now();
  const Json figures{{"initialise_s", slowest_rank(initialised - connected, world)},
                     {"initialise_and_use_s", slowest_rank(used - connected, world)},
                     {"connect_and_initialise_s", slowest_rank(initialised - start, world)}};
  state.destroy_model_parallel();
  world.close();
  return figures;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  return tessera::bench::rank_main({arguments, static_cast<size_t>(count)},
                                   {{"initialise", tessera::measure}});
}

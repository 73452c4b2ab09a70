// One rank's share of initialize_model_parallel in a fake world, and everything that the getters
// then answer: what peers/megatron_parallel_state.py times, step by step.
#include <benchmark/benchmark.h>

#include "tessera/dialect/megatron/parallel_state.h"

namespace tessera::megatron {
namespace {

MegatronConfig config_for(int64_t world) {
  const int64_t size = world < 128 ? 4 : 8;  // Eights and cp 2 need 128 ranks.
  return {.tensor_model_parallel_size = size,
          .pipeline_model_parallel_size = size,
          .context_parallel_size = 2,
          .expert_model_parallel_size = size,
          .create_gloo_process_groups = false};
}

int64_t ask_groups(const ParallelState& state) {
  const Group groups[] = {state.get_model_parallel_group(),
                          state.get_tensor_model_parallel_group(),
                          state.get_pipeline_model_parallel_group(),
                          state.get_data_parallel_group(),
                          state.get_data_parallel_group(true),
                          state.get_data_parallel_group(true, true),
                          state.get_context_parallel_group(),
                          state.get_embedding_group(),
                          state.get_position_embedding_group(),
                          state.get_amax_reduction_group(),
                          *state.get_tensor_and_data_parallel_group(true, true),
                          state.get_tensor_and_context_parallel_group(),
                          state.get_expert_model_parallel_group(),
                          state.get_expert_tensor_parallel_group(),
                          state.get_expert_tensor_and_model_parallel_group(),
                          state.get_expert_tensor_model_pipeline_parallel_group(),
                          state.get_expert_data_parallel_group(),
                          state.get_intra_distributed_optimizer_instance_group()};
  int64_t sum = 0;
  for (const Group& group : groups) sum += group.size();
  return sum;
}

int64_t ask_sizes(const ParallelState& state) {
  return state.get_tensor_model_parallel_world_size() +
         state.get_pipeline_model_parallel_world_size() + state.get_data_parallel_world_size() +
         state.get_data_parallel_world_size(true) + state.get_context_parallel_world_size() +
         state.get_tensor_and_context_parallel_world_size() +
         state.get_expert_model_parallel_world_size() +
         *state.get_expert_tensor_parallel_world_size() +
         state.get_expert_tensor_and_model_parallel_world_size() +
         state.get_expert_data_parallel_world_size();
}

int64_t ask_ranks(const ParallelState& state) {
  return state.get_tensor_model_parallel_rank() + state.get_pipeline_model_parallel_rank() +
         state.get_data_parallel_rank() + state.get_data_parallel_rank(true) +
         state.get_context_parallel_rank() + state.get_tensor_and_context_parallel_rank() +
         state.get_expert_model_parallel_rank() + *state.get_expert_tensor_parallel_rank() +
         state.get_expert_tensor_and_model_parallel_rank() + state.get_expert_data_parallel_rank() +
         state.get_tensor_model_parallel_src_rank() + state.get_model_parallel_src_rank() +
         state.get_data_parallel_src_rank() + state.get_expert_model_parallel_src_rank() +
         state.get_pipeline_model_parallel_first_rank() +
         state.get_pipeline_model_parallel_last_rank() +
         state.get_pipeline_model_parallel_next_rank() +
         state.get_pipeline_model_parallel_prev_rank();
}

int64_t ask_stages(const ParallelState& state) {
  return static_cast<int64_t>(state.is_pipeline_first_stage()) +
         static_cast<int64_t>(state.is_pipeline_last_stage()) +
         static_cast<int64_t>(state.is_rank_in_embedding_group()) +
         static_cast<int64_t>(state.is_rank_in_position_embedding_group()) +
         static_cast<int64_t>(state.get_all_ranks().size());
}

// The world is made anew each time: in a used one the communicators exist already.
void InitialiseAndAskAll(benchmark::State& timing) {
  const int64_t size = timing.range(0);
  const MegatronConfig config = config_for(size);
  for (auto _ : timing) {
    World world = World::fake(GlobalRank{0}, size);
    ParallelState state(world);
    state.initialize_model_parallel(config);
    benchmark::DoNotOptimize(ask_groups(state) + ask_sizes(state) + ask_ranks(state) +
                             ask_stages(state));
  }
}
BENCHMARK(InitialiseAndAskAll)
    ->Arg(64)
    ->Arg(1'024)
    ->Arg(16'384)
    ->Arg(65'536)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera::megatron

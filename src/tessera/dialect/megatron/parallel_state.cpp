#include "tessera/dialect/megatron/parallel_state.h"

#include "tessera/base/check.h"

namespace tessera::megatron {
namespace {

// The state that was set before there was a world.
ParallelState& pending() {
  static ParallelState state;
  return state;
}

struct Attached {
  explicit Attached(const WorldHandle& world)
      : state(world, std::exchange(pending(), ParallelState())) {}
  ParallelState state;
};

}  // namespace

ParallelState& parallel_state() {
  World* const world = World::current();
  return world == nullptr ? pending() : world->attached<Attached>().state;
}

// Each function calls the member of the same name. These macros define one from its parameter
// types; the last macro defines both forms of a getter.
#define TSR_CALL0(name)                              \
  auto name() -> decltype(parallel_state().name()) { \
    return parallel_state().name();                  \
  }
#define TSR_CALL1(name, A)                               \
  auto name(A a) -> decltype(parallel_state().name(a)) { \
    return parallel_state().name(a);                     \
  }
#define TSR_CALL2(name, A, B)                                    \
  auto name(A a, B b) -> decltype(parallel_state().name(a, b)) { \
    return parallel_state().name(a, b);                          \
  }
#define TSR_CALL3(name, A, B, C)                                         \
  auto name(A a, B b, C c) -> decltype(parallel_state().name(a, b, c)) { \
    return parallel_state().name(a, b, c);                               \
  }
#define TSR_GETTERS(name) \
  TSR_CALL0(name)         \
  TSR_CALL1(name, bool)

TSR_CALL1(initialize_model_parallel, const MegatronConfig&)
TSR_CALL0(destroy_model_parallel)
TSR_CALL0(is_initialized)
TSR_CALL0(is_unitialized)
TSR_CALL0(model_parallel_is_initialized)
TSR_GETTERS(get_model_parallel_group)
TSR_GETTERS(get_tensor_model_parallel_group)
TSR_GETTERS(get_pipeline_model_parallel_group)
TSR_CALL3(get_data_parallel_group, bool, bool, bool)
TSR_CALL0(has_separate_all_gather_group)
TSR_CALL2(get_data_parallel_group_gloo, bool, bool)
TSR_GETTERS(get_context_parallel_group)
TSR_GETTERS(get_context_parallel_global_ranks)
TSR_GETTERS(get_hierarchical_context_parallel_groups)
TSR_CALL2(get_hybrid_data_context_parallel_groups, bool, std::optional<int64_t>)
TSR_GETTERS(get_embedding_group)
TSR_GETTERS(get_position_embedding_group)
TSR_CALL2(get_amax_reduction_group, bool, bool)
TSR_CALL0(get_tensor_and_data_parallel_group)
TSR_CALL2(get_tensor_and_data_parallel_group, bool, bool)
TSR_GETTERS(get_tensor_and_context_parallel_group)
TSR_GETTERS(get_expert_model_parallel_group)
TSR_GETTERS(get_expert_tensor_parallel_group)
TSR_GETTERS(get_expert_tensor_and_model_parallel_group)
TSR_GETTERS(get_expert_tensor_model_pipeline_parallel_group)
TSR_CALL0(get_expert_data_parallel_group)
TSR_CALL2(get_expert_data_parallel_group, bool, bool)
TSR_CALL1(get_data_modulo_expert_parallel_group, bool)
TSR_CALL1(get_expert_data_parallel_group_gloo, bool)
TSR_GETTERS(get_intra_distributed_optimizer_instance_group)
TSR_GETTERS(get_inter_distributed_optimizer_instance_group)
TSR_CALL1(set_tensor_model_parallel_world_size, std::optional<int64_t>)
TSR_CALL1(set_tensor_model_parallel_rank, std::optional<int64_t>)
TSR_CALL1(set_pipeline_model_parallel_world_size, std::optional<int64_t>)
TSR_CALL1(set_pipeline_model_parallel_rank, std::optional<int64_t>)
TSR_CALL1(set_data_parallel_rank, std::optional<int64_t>)
TSR_CALL1(set_expert_model_parallel_world_size, std::optional<int64_t>)
TSR_CALL1(set_expert_model_parallel_rank, std::optional<int64_t>)
TSR_CALL1(set_expert_tensor_parallel_world_size, std::optional<int64_t>)
TSR_CALL1(set_expert_tensor_parallel_rank, std::optional<int64_t>)
TSR_CALL1(set_virtual_pipeline_model_parallel_world_size, std::optional<int64_t>)
TSR_CALL1(set_virtual_pipeline_model_parallel_rank, std::optional<int64_t>)
TSR_CALL0(get_tensor_model_parallel_world_size)
TSR_CALL0(get_tensor_model_parallel_rank)
TSR_CALL0(get_pipeline_model_parallel_world_size)
TSR_CALL0(get_pipeline_model_parallel_rank)
TSR_CALL2(get_data_parallel_world_size, bool, bool)
TSR_CALL2(get_data_parallel_rank, bool, bool)
TSR_CALL0(get_context_parallel_world_size)
TSR_CALL0(get_context_parallel_rank)
TSR_CALL0(get_tensor_and_context_parallel_world_size)
TSR_CALL0(get_tensor_and_context_parallel_rank)
TSR_CALL0(get_expert_model_parallel_world_size)
TSR_CALL0(get_expert_model_parallel_rank)
TSR_CALL0(get_expert_tensor_parallel_world_size)
TSR_CALL0(get_expert_tensor_parallel_rank)
TSR_CALL0(get_expert_tensor_and_model_parallel_world_size)
TSR_CALL0(get_expert_tensor_and_model_parallel_rank)
TSR_CALL1(get_expert_data_parallel_world_size, bool)
TSR_CALL1(get_expert_data_parallel_rank, bool)
TSR_CALL0(get_virtual_pipeline_model_parallel_world_size)
TSR_CALL0(get_virtual_pipeline_model_parallel_rank)
TSR_CALL2(is_pipeline_first_stage, bool, std::optional<int64_t>)
TSR_CALL2(is_pipeline_last_stage, bool, std::optional<int64_t>)
TSR_CALL2(is_rank_in_embedding_group, bool, std::optional<int64_t>)
TSR_CALL0(is_rank_in_position_embedding_group)
TSR_CALL0(get_tensor_model_parallel_src_rank)
TSR_CALL0(get_model_parallel_src_rank)
TSR_CALL1(get_data_parallel_src_rank, bool)
TSR_CALL0(get_expert_model_parallel_src_rank)
TSR_CALL0(get_pipeline_model_parallel_first_rank)
TSR_CALL0(get_pipeline_model_parallel_last_rank)
TSR_CALL0(get_pipeline_model_parallel_next_rank)
TSR_CALL0(get_pipeline_model_parallel_prev_rank)
TSR_CALL0(get_all_ranks)
TSR_CALL3(create_hybrid_dp_cp_groups, int64_t, const Ranks&, const NcclOptions&)
TSR_CALL2(update_pg_timeout, std::chrono::milliseconds, const std::optional<Group>&)
TSR_CALL0(_set_global_memory_buffer)
TSR_CALL0(get_global_memory_buffer)
TSR_CALL0(destroy_global_memory_buffer)
TSR_CALL0(_set_global_symmetric_memory_buffer)
TSR_CALL0(get_global_symmetric_memory_buffer)
TSR_CALL0(destroy_global_symmetric_memory_buffer)

Group create_group(const Ranks& ranks, std::optional<std::chrono::milliseconds> timeout,
                   const std::optional<std::string>& backend,
                   const std::optional<NcclOptions>& pg_options, bool use_local_synchronization,
                   const std::optional<std::string>& group_desc) {
  return parallel_state().create_group(ranks, timeout, backend, pg_options,
                                       use_local_synchronization, group_desc);
}

HierarchicalGroups create_hierarchical_groups(int64_t rank, const Ranks& ranks,
                                              const std::vector<int64_t>& hierarchical_group_sizes,
                                              bool create_gloo_process_groups,
                                              const std::vector<NcclOptions>& pg_options,
                                              std::optional<std::chrono::milliseconds> timeout,
                                              const std::optional<std::string>& group_desc) {
  return parallel_state().create_hierarchical_groups(rank, ranks, hierarchical_group_sizes,
                                                     create_gloo_process_groups, pg_options,
                                                     timeout, group_desc);
}

#undef TSR_CALL0
#undef TSR_CALL1
#undef TSR_CALL2
#undef TSR_CALL3
#undef TSR_GETTERS

}  // namespace tessera::megatron

#include "tessera/dialect/megatron/parallel_state.h"

#include "tessera/base/check.h"

namespace tessera::megatron {
namespace {

// What was set before there was a world.
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

void initialize_model_parallel(const MegatronConfig& config) {
  parallel_state().initialize_model_parallel(config);
}

void destroy_model_parallel() {
  parallel_state().destroy_model_parallel();
}

bool is_initialized() {
  return parallel_state().is_initialized();
}
bool is_unitialized() {
  return parallel_state().is_unitialized();
}
bool model_parallel_is_initialized() {
  return parallel_state().model_parallel_is_initialized();
}

Group get_model_parallel_group() {
  return parallel_state().get_model_parallel_group();
}
std::optional<Group> get_model_parallel_group(bool check_initialized) {
  return parallel_state().get_model_parallel_group(check_initialized);
}
Group get_tensor_model_parallel_group() {
  return parallel_state().get_tensor_model_parallel_group();
}
std::optional<Group> get_tensor_model_parallel_group(bool check_initialized) {
  return parallel_state().get_tensor_model_parallel_group(check_initialized);
}
Group get_pipeline_model_parallel_group() {
  return parallel_state().get_pipeline_model_parallel_group();
}
std::optional<Group> get_pipeline_model_parallel_group(bool check_initialized) {
  return parallel_state().get_pipeline_model_parallel_group(check_initialized);
}

Group get_data_parallel_group(bool with_context_parallel, bool partial_data_parallel,
                              bool independent_all_gather) {
  return parallel_state().get_data_parallel_group(with_context_parallel, partial_data_parallel,
                                                  independent_all_gather);
}
bool has_separate_all_gather_group() {
  return parallel_state().has_separate_all_gather_group();
}
Group get_data_parallel_group_gloo(bool with_context_parallel, bool partial_data_parallel) {
  return parallel_state().get_data_parallel_group_gloo(with_context_parallel,
                                                       partial_data_parallel);
}

Group get_context_parallel_group() {
  return parallel_state().get_context_parallel_group();
}
std::optional<Group> get_context_parallel_group(bool check_initialized) {
  return parallel_state().get_context_parallel_group(check_initialized);
}
Ranks get_context_parallel_global_ranks() {
  return parallel_state().get_context_parallel_global_ranks();
}
std::optional<Ranks> get_context_parallel_global_ranks(bool check_initialized) {
  return parallel_state().get_context_parallel_global_ranks(check_initialized);
}

std::vector<Group> get_hierarchical_context_parallel_groups() {
  return parallel_state().get_hierarchical_context_parallel_groups();
}
std::optional<std::vector<Group>> get_hierarchical_context_parallel_groups(bool check_initialized) {
  return parallel_state().get_hierarchical_context_parallel_groups(check_initialized);
}

Group get_hybrid_data_context_parallel_groups(bool check_initialized,
                                              std::optional<int64_t> group_size) {
  return parallel_state().get_hybrid_data_context_parallel_groups(check_initialized, group_size);
}

Group get_embedding_group() {
  return parallel_state().get_embedding_group();
}
std::optional<Group> get_embedding_group(bool check_initialized) {
  return parallel_state().get_embedding_group(check_initialized);
}
Group get_position_embedding_group() {
  return parallel_state().get_position_embedding_group();
}
std::optional<Group> get_position_embedding_group(bool check_initialized) {
  return parallel_state().get_position_embedding_group(check_initialized);
}
Group get_amax_reduction_group(bool with_context_parallel, bool tp_only_amax_red) {
  return parallel_state().get_amax_reduction_group(with_context_parallel, tp_only_amax_red);
}
Group get_tensor_and_data_parallel_group() {
  return parallel_state().get_tensor_and_data_parallel_group();
}
std::optional<Group> get_tensor_and_data_parallel_group(bool check_initialized,
                                                        bool with_context_parallel) {
  return parallel_state().get_tensor_and_data_parallel_group(check_initialized,
                                                             with_context_parallel);
}
Group get_tensor_and_context_parallel_group() {
  return parallel_state().get_tensor_and_context_parallel_group();
}
std::optional<Group> get_tensor_and_context_parallel_group(bool check_initialized) {
  return parallel_state().get_tensor_and_context_parallel_group(check_initialized);
}

Group get_expert_model_parallel_group() {
  return parallel_state().get_expert_model_parallel_group();
}
std::optional<Group> get_expert_model_parallel_group(bool check_initialized) {
  return parallel_state().get_expert_model_parallel_group(check_initialized);
}
Group get_expert_tensor_parallel_group() {
  return parallel_state().get_expert_tensor_parallel_group();
}
std::optional<Group> get_expert_tensor_parallel_group(bool check_initialized) {
  return parallel_state().get_expert_tensor_parallel_group(check_initialized);
}
Group get_expert_tensor_and_model_parallel_group() {
  return parallel_state().get_expert_tensor_and_model_parallel_group();
}
std::optional<Group> get_expert_tensor_and_model_parallel_group(bool check_initialized) {
  return parallel_state().get_expert_tensor_and_model_parallel_group(check_initialized);
}
Group get_expert_tensor_model_pipeline_parallel_group() {
  return parallel_state().get_expert_tensor_model_pipeline_parallel_group();
}
std::optional<Group> get_expert_tensor_model_pipeline_parallel_group(bool check_initialized) {
  return parallel_state().get_expert_tensor_model_pipeline_parallel_group(check_initialized);
}
Group get_expert_data_parallel_group() {
  return parallel_state().get_expert_data_parallel_group();
}
std::optional<Group> get_expert_data_parallel_group(bool check_initialized,
                                                    bool partial_expert_data_parallel) {
  return parallel_state().get_expert_data_parallel_group(check_initialized,
                                                         partial_expert_data_parallel);
}
Group get_data_modulo_expert_parallel_group(bool partial_expert_data_parallel) {
  return parallel_state().get_data_modulo_expert_parallel_group(partial_expert_data_parallel);
}
Group get_expert_data_parallel_group_gloo(bool partial_expert_data_parallel) {
  return parallel_state().get_expert_data_parallel_group_gloo(partial_expert_data_parallel);
}

Group get_intra_distributed_optimizer_instance_group() {
  return parallel_state().get_intra_distributed_optimizer_instance_group();
}
std::optional<Group> get_intra_distributed_optimizer_instance_group(bool check_initialized) {
  return parallel_state().get_intra_distributed_optimizer_instance_group(check_initialized);
}
Group get_inter_distributed_optimizer_instance_group() {
  return parallel_state().get_inter_distributed_optimizer_instance_group();
}
std::optional<Group> get_inter_distributed_optimizer_instance_group(bool check_initialized) {
  return parallel_state().get_inter_distributed_optimizer_instance_group(check_initialized);
}

void set_tensor_model_parallel_world_size(std::optional<int64_t> world_size) {
  parallel_state().set_tensor_model_parallel_world_size(world_size);
}
void set_tensor_model_parallel_rank(std::optional<int64_t> rank) {
  parallel_state().set_tensor_model_parallel_rank(rank);
}
void set_pipeline_model_parallel_world_size(std::optional<int64_t> world_size) {
  parallel_state().set_pipeline_model_parallel_world_size(world_size);
}
void set_pipeline_model_parallel_rank(std::optional<int64_t> rank) {
  parallel_state().set_pipeline_model_parallel_rank(rank);
}
void set_data_parallel_rank(std::optional<int64_t> rank) {
  parallel_state().set_data_parallel_rank(rank);
}
void set_expert_model_parallel_world_size(std::optional<int64_t> world_size) {
  parallel_state().set_expert_model_parallel_world_size(world_size);
}
void set_expert_model_parallel_rank(std::optional<int64_t> rank) {
  parallel_state().set_expert_model_parallel_rank(rank);
}
void set_expert_tensor_parallel_world_size(std::optional<int64_t> world_size) {
  parallel_state().set_expert_tensor_parallel_world_size(world_size);
}
void set_expert_tensor_parallel_rank(std::optional<int64_t> rank) {
  parallel_state().set_expert_tensor_parallel_rank(rank);
}
void set_virtual_pipeline_model_parallel_world_size(std::optional<int64_t> world_size) {
  parallel_state().set_virtual_pipeline_model_parallel_world_size(world_size);
}
void set_virtual_pipeline_model_parallel_rank(std::optional<int64_t> rank) {
  parallel_state().set_virtual_pipeline_model_parallel_rank(rank);
}

int64_t get_tensor_model_parallel_world_size() {
  return parallel_state().get_tensor_model_parallel_world_size();
}
int64_t get_tensor_model_parallel_rank() {
  return parallel_state().get_tensor_model_parallel_rank();
}
int64_t get_pipeline_model_parallel_world_size() {
  return parallel_state().get_pipeline_model_parallel_world_size();
}
int64_t get_pipeline_model_parallel_rank() {
  return parallel_state().get_pipeline_model_parallel_rank();
}
int64_t get_data_parallel_world_size(bool with_context_parallel, bool partial_data_parallel) {
  return parallel_state().get_data_parallel_world_size(with_context_parallel,
                                                       partial_data_parallel);
}
int64_t get_data_parallel_rank(bool with_context_parallel, bool partial_data_parallel) {
  return parallel_state().get_data_parallel_rank(with_context_parallel, partial_data_parallel);
}
int64_t get_context_parallel_world_size() {
  return parallel_state().get_context_parallel_world_size();
}
int64_t get_context_parallel_rank() {
  return parallel_state().get_context_parallel_rank();
}
int64_t get_tensor_and_context_parallel_world_size() {
  return parallel_state().get_tensor_and_context_parallel_world_size();
}
int64_t get_tensor_and_context_parallel_rank() {
  return parallel_state().get_tensor_and_context_parallel_rank();
}
int64_t get_expert_model_parallel_world_size() {
  return parallel_state().get_expert_model_parallel_world_size();
}
int64_t get_expert_model_parallel_rank() {
  return parallel_state().get_expert_model_parallel_rank();
}

std::optional<int64_t> get_expert_tensor_parallel_world_size() {
  return parallel_state().get_expert_tensor_parallel_world_size();
}
std::optional<int64_t> get_expert_tensor_parallel_rank() {
  return parallel_state().get_expert_tensor_parallel_rank();
}

int64_t get_expert_tensor_and_model_parallel_world_size() {
  return parallel_state().get_expert_tensor_and_model_parallel_world_size();
}
int64_t get_expert_tensor_and_model_parallel_rank() {
  return parallel_state().get_expert_tensor_and_model_parallel_rank();
}
int64_t get_expert_data_parallel_world_size(bool partial_expert_data_parallel) {
  return parallel_state().get_expert_data_parallel_world_size(partial_expert_data_parallel);
}
int64_t get_expert_data_parallel_rank(bool partial_expert_data_parallel) {
  return parallel_state().get_expert_data_parallel_rank(partial_expert_data_parallel);
}

std::optional<int64_t> get_virtual_pipeline_model_parallel_world_size() {
  return parallel_state().get_virtual_pipeline_model_parallel_world_size();
}
std::optional<int64_t> get_virtual_pipeline_model_parallel_rank() {
  return parallel_state().get_virtual_pipeline_model_parallel_rank();
}

bool is_pipeline_first_stage(bool ignore_virtual, std::optional<int64_t> vp_stage) {
  return parallel_state().is_pipeline_first_stage(ignore_virtual, vp_stage);
}
bool is_pipeline_last_stage(bool ignore_virtual, std::optional<int64_t> vp_stage) {
  return parallel_state().is_pipeline_last_stage(ignore_virtual, vp_stage);
}
bool is_rank_in_embedding_group(bool ignore_virtual, std::optional<int64_t> vp_stage) {
  return parallel_state().is_rank_in_embedding_group(ignore_virtual, vp_stage);
}
bool is_rank_in_position_embedding_group() {
  return parallel_state().is_rank_in_position_embedding_group();
}

int64_t get_tensor_model_parallel_src_rank() {
  return parallel_state().get_tensor_model_parallel_src_rank();
}
int64_t get_model_parallel_src_rank() {
  return parallel_state().get_model_parallel_src_rank();
}
int64_t get_data_parallel_src_rank(bool with_context_parallel) {
  return parallel_state().get_data_parallel_src_rank(with_context_parallel);
}
int64_t get_expert_model_parallel_src_rank() {
  return parallel_state().get_expert_model_parallel_src_rank();
}
int64_t get_pipeline_model_parallel_first_rank() {
  return parallel_state().get_pipeline_model_parallel_first_rank();
}
int64_t get_pipeline_model_parallel_last_rank() {
  return parallel_state().get_pipeline_model_parallel_last_rank();
}
int64_t get_pipeline_model_parallel_next_rank() {
  return parallel_state().get_pipeline_model_parallel_next_rank();
}
int64_t get_pipeline_model_parallel_prev_rank() {
  return parallel_state().get_pipeline_model_parallel_prev_rank();
}

std::string get_all_ranks() {
  return parallel_state().get_all_ranks();
}

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

std::map<int64_t, Group> create_hybrid_dp_cp_groups(int64_t rank, const Ranks& ranks,
                                                    const NcclOptions& pg_options) {
  return parallel_state().create_hybrid_dp_cp_groups(rank, ranks, pg_options);
}

void update_pg_timeout(std::chrono::milliseconds timeout, const std::optional<Group>& pg) {
  parallel_state().update_pg_timeout(timeout, pg);
}

void _set_global_memory_buffer() {
  parallel_state()._set_global_memory_buffer();
}
GlobalMemoryBuffer& get_global_memory_buffer() {
  return parallel_state().get_global_memory_buffer();
}
void destroy_global_memory_buffer() {
  parallel_state().destroy_global_memory_buffer();
}
void _set_global_symmetric_memory_buffer() {
  parallel_state()._set_global_symmetric_memory_buffer();
}
GlobalSymmetricMemoryBuffer& get_global_symmetric_memory_buffer() {
  return parallel_state().get_global_symmetric_memory_buffer();
}
void destroy_global_symmetric_memory_buffer() {
  parallel_state().destroy_global_symmetric_memory_buffer();
}

}  // namespace tessera::megatron

// Declares each function of parallel_state once: state.h includes this file as members of
// ParallelState, parallel_state.h as functions on the state of the current world. TSR_CONST is
// `const` for members.
#ifndef TSR_CONST
#include "tessera/dialect/megatron/parallel_state.h"  // If this file is included by itself.
#else

/// **Collective.** Checks every argument on every rank, then makes all groups. StateError if they
/// already exist. A failure leaves nothing behind.
void initialize_model_parallel(const MegatronConfig& config = {});

/// Removes everything: groups, overrides, virtual stages and buffers. Does nothing if there is
/// nothing to remove.
void destroy_model_parallel();

/// Whether initialize_model_parallel has been called. These three never throw.
bool is_initialized() TSR_CONST;
bool is_unitialized() TSR_CONST;
bool model_parallel_is_initialized() TSR_CONST;

/// Groups of the decoder. With `check_initialized` false, a getter returns nullopt if there is no
/// group.
Group get_model_parallel_group() TSR_CONST;
std::optional<Group> get_model_parallel_group(bool check_initialized) TSR_CONST;
Group get_tensor_model_parallel_group() TSR_CONST;
std::optional<Group> get_tensor_model_parallel_group(bool check_initialized) TSR_CONST;
Group get_pipeline_model_parallel_group() TSR_CONST;
std::optional<Group> get_pipeline_model_parallel_group(bool check_initialized) TSR_CONST;

/// `independent_all_gather` selects the twin that create_all_gather_group made. It and
/// `partial_data_parallel` apply to the group with context parallelism.
Group get_data_parallel_group(bool with_context_parallel = false,
                              bool partial_data_parallel = false,
                              bool independent_all_gather = false) TSR_CONST;
bool has_separate_all_gather_group() TSR_CONST;
Group get_data_parallel_group_gloo(bool with_context_parallel = false,
                                   bool partial_data_parallel = false) TSR_CONST;

Group get_context_parallel_group() TSR_CONST;
std::optional<Group> get_context_parallel_group(bool check_initialized) TSR_CONST;
Ranks get_context_parallel_global_ranks() TSR_CONST;
std::optional<Ranks> get_context_parallel_global_ranks(bool check_initialized) TSR_CONST;

/// One per level, innermost first.
std::vector<Group> get_hierarchical_context_parallel_groups() TSR_CONST;
std::optional<std::vector<Group>> get_hierarchical_context_parallel_groups(
    bool check_initialized) TSR_CONST;

/// The chunk of `group_size` ranks. Like Megatron, ignores `check_initialized`.
Group get_hybrid_data_context_parallel_groups(
    bool check_initialized = true, std::optional<int64_t> group_size = std::nullopt) TSR_CONST;

Group get_embedding_group() TSR_CONST;
std::optional<Group> get_embedding_group(bool check_initialized) TSR_CONST;
Group get_position_embedding_group() TSR_CONST;
std::optional<Group> get_position_embedding_group(bool check_initialized) TSR_CONST;
Group get_amax_reduction_group(bool with_context_parallel = false,
                               bool tp_only_amax_red = false) TSR_CONST;
Group get_tensor_and_data_parallel_group() TSR_CONST;
std::optional<Group> get_tensor_and_data_parallel_group(
    bool check_initialized, bool with_context_parallel = false) TSR_CONST;
Group get_tensor_and_context_parallel_group() TSR_CONST;
std::optional<Group> get_tensor_and_context_parallel_group(bool check_initialized) TSR_CONST;

/// Groups of the experts.
Group get_expert_model_parallel_group() TSR_CONST;
std::optional<Group> get_expert_model_parallel_group(bool check_initialized) TSR_CONST;
Group get_expert_tensor_parallel_group() TSR_CONST;
std::optional<Group> get_expert_tensor_parallel_group(bool check_initialized) TSR_CONST;
Group get_expert_tensor_and_model_parallel_group() TSR_CONST;
std::optional<Group> get_expert_tensor_and_model_parallel_group(bool check_initialized) TSR_CONST;
Group get_expert_tensor_model_pipeline_parallel_group() TSR_CONST;
std::optional<Group> get_expert_tensor_model_pipeline_parallel_group(
    bool check_initialized) TSR_CONST;
Group get_expert_data_parallel_group() TSR_CONST;
std::optional<Group> get_expert_data_parallel_group(
    bool check_initialized, bool partial_expert_data_parallel = false) TSR_CONST;
Group get_data_modulo_expert_parallel_group(bool partial_expert_data_parallel = false) TSR_CONST;
Group get_expert_data_parallel_group_gloo(bool partial_expert_data_parallel = false) TSR_CONST;

/// Optimizer instances: all ranks of this instance, and this rank's counterparts in the others.
Group get_intra_distributed_optimizer_instance_group() TSR_CONST;
std::optional<Group> get_intra_distributed_optimizer_instance_group(
    bool check_initialized) TSR_CONST;
Group get_inter_distributed_optimizer_instance_group() TSR_CONST;
std::optional<Group> get_inter_distributed_optimizer_instance_group(
    bool check_initialized) TSR_CONST;

/// Overrides: sizes and ranks that the getters below return from then on, until nullopt resets
/// them. They also work without a world.
void set_tensor_model_parallel_world_size(std::optional<int64_t> world_size);
void set_tensor_model_parallel_rank(std::optional<int64_t> rank);
void set_pipeline_model_parallel_world_size(std::optional<int64_t> world_size);
void set_pipeline_model_parallel_rank(std::optional<int64_t> rank);
void set_data_parallel_rank(std::optional<int64_t> rank);
void set_expert_model_parallel_world_size(std::optional<int64_t> world_size);
void set_expert_model_parallel_rank(std::optional<int64_t> rank);
void set_expert_tensor_parallel_world_size(std::optional<int64_t> world_size);
void set_expert_tensor_parallel_rank(std::optional<int64_t> rank);
void set_virtual_pipeline_model_parallel_world_size(std::optional<int64_t> world_size);
void set_virtual_pipeline_model_parallel_rank(std::optional<int64_t> rank);

/// Sizes of this rank's groups, and its rank in them. Without a world, those of data-parallel,
/// context-parallel and expert groups are 0.
int64_t get_tensor_model_parallel_world_size() TSR_CONST;
int64_t get_tensor_model_parallel_rank() TSR_CONST;
int64_t get_pipeline_model_parallel_world_size() TSR_CONST;
int64_t get_pipeline_model_parallel_rank() TSR_CONST;
int64_t get_data_parallel_world_size(bool with_context_parallel = false,
                                     bool partial_data_parallel = false) TSR_CONST;
int64_t get_data_parallel_rank(bool with_context_parallel = false,
                               bool partial_data_parallel = false) TSR_CONST;
int64_t get_context_parallel_world_size() TSR_CONST;
int64_t get_context_parallel_rank() TSR_CONST;
int64_t get_tensor_and_context_parallel_world_size() TSR_CONST;
int64_t get_tensor_and_context_parallel_rank() TSR_CONST;
int64_t get_expert_model_parallel_world_size() TSR_CONST;
int64_t get_expert_model_parallel_rank() TSR_CONST;

/// Without a group: the override of the decoder's, or nullopt.
std::optional<int64_t> get_expert_tensor_parallel_world_size() TSR_CONST;
std::optional<int64_t> get_expert_tensor_parallel_rank() TSR_CONST;

int64_t get_expert_tensor_and_model_parallel_world_size() TSR_CONST;
int64_t get_expert_tensor_and_model_parallel_rank() TSR_CONST;
int64_t get_expert_data_parallel_world_size(bool partial_expert_data_parallel = false) TSR_CONST;
int64_t get_expert_data_parallel_rank(bool partial_expert_data_parallel = false) TSR_CONST;

/// nullopt if the pipeline is not interleaved.
std::optional<int64_t> get_virtual_pipeline_model_parallel_world_size() TSR_CONST;
std::optional<int64_t> get_virtual_pipeline_model_parallel_rank() TSR_CONST;

/// Pipeline stages. With `ignore_virtual` false, an interleaved pipeline needs `vp_stage`.
bool is_pipeline_first_stage(bool ignore_virtual = true,
                             std::optional<int64_t> vp_stage = std::nullopt) TSR_CONST;
bool is_pipeline_last_stage(bool ignore_virtual = true,
                            std::optional<int64_t> vp_stage = std::nullopt) TSR_CONST;
bool is_rank_in_embedding_group(bool ignore_virtual = true,
                                std::optional<int64_t> vp_stage = std::nullopt) TSR_CONST;
bool is_rank_in_position_embedding_group() TSR_CONST;

/// The first global rank of this rank's groups, and its neighbours in the pipeline, which wraps
/// around.
int64_t get_tensor_model_parallel_src_rank() TSR_CONST;
int64_t get_model_parallel_src_rank() TSR_CONST;
int64_t get_data_parallel_src_rank(bool with_context_parallel = false) TSR_CONST;
int64_t get_expert_model_parallel_src_rank() TSR_CONST;
int64_t get_pipeline_model_parallel_first_rank() TSR_CONST;
int64_t get_pipeline_model_parallel_last_rank() TSR_CONST;
int64_t get_pipeline_model_parallel_next_rank() TSR_CONST;
int64_t get_pipeline_model_parallel_prev_rank() TSR_CONST;

/// This rank as "tp_dp_cp_pp_ep".
std::string get_all_ranks() TSR_CONST;

/// **Collective** over the members. A group with its own communicator, even if other groups have
/// the same ranks; the ranks are sorted. `backend` is gloo or nccl; default: the world's.
Group create_group(const Ranks& ranks,
                   std::optional<std::chrono::milliseconds> timeout = std::nullopt,
                   const std::optional<std::string>& backend = std::nullopt,
                   const std::optional<NcclOptions>& pg_options = std::nullopt,
                   bool use_local_synchronization = false,
                   const std::optional<std::string>& group_desc = std::nullopt);

/// **Collective** over `ranks`. Level 0 consists of runs of sizes[0] ranks, level 1 joins sizes[1]
/// of those member by member, and so on. `pg_options` is empty, or has one entry for all levels or
/// one per level.
HierarchicalGroups create_hierarchical_groups(
    int64_t rank, const Ranks& ranks, const std::vector<int64_t>& hierarchical_group_sizes,
    bool create_gloo_process_groups = false, const std::vector<NcclOptions>& pg_options = {},
    std::optional<std::chrono::milliseconds> timeout = std::nullopt,
    const std::optional<std::string>& group_desc = std::nullopt);

/// **Collective** over `ranks`. Chunks of 2, 4, 8, … ranks, keyed by size.
std::map<int64_t, Group> create_hybrid_dp_cp_groups(int64_t rank, const Ranks& ranks,
                                                    const NcclOptions& pg_options = {});

/// **Collective** over the group, or over all ranks if none is given. Waits in a barrier, then sets
/// the time-out of the group, or of the world and all groups made here.
void update_pg_timeout(std::chrono::milliseconds timeout,
                       const std::optional<Group>& pg = std::nullopt);

/// Scratch memory; see memory_buffer.h. initialize_model_parallel makes the first one.
void _set_global_memory_buffer();
GlobalMemoryBuffer& get_global_memory_buffer() TSR_CONST;
void destroy_global_memory_buffer();
void _set_global_symmetric_memory_buffer();
GlobalSymmetricMemoryBuffer& get_global_symmetric_memory_buffer() TSR_CONST;
void destroy_global_symmetric_memory_buffer();

#endif

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/dialect/megatron/state.h"
#include "tessera/topology/rank_generator.h"

/// Megatron-Core's `parallel_state` under its names: functions on the state of the current world.
/// docs/dialects/megatron.md lists where this differs from the page.
///
///   World::make_current(World::connect());
///   megatron::initialize_model_parallel({.tensor_model_parallel_size = 2});
///   all_reduce(x, megatron::get_tensor_model_parallel_group()).wait();
namespace tessera {
namespace megatron TSR_API {

using tessera::RankGenerator;  // With get_mask and get_ranks.

/// The state that the functions below act on: the current world's. Without one, a state that waits
/// for the next world, which takes over its overrides and buffers.
ParallelState& parallel_state();

/// **Collective.** Checks every argument on every rank, then makes all groups. StateError where
/// they exist already. Where anything fails, nothing is left behind.
void initialize_model_parallel(const MegatronConfig& config = {});

/// Forgets everything: groups, overrides, virtual stages and buffers. Harmless where there is
/// nothing.
void destroy_model_parallel();

/// Whether initialize_model_parallel has been called. These three never throw.
bool is_initialized();
bool is_unitialized();
bool model_parallel_is_initialized();

/// Groups of the decoder. With `check_initialized` false the answer is nullopt where there is none.
Group get_model_parallel_group();
std::optional<Group> get_model_parallel_group(bool check_initialized);
Group get_tensor_model_parallel_group();
std::optional<Group> get_tensor_model_parallel_group(bool check_initialized);
Group get_pipeline_model_parallel_group();
std::optional<Group> get_pipeline_model_parallel_group(bool check_initialized);

/// `independent_all_gather` asks for the twin that create_all_gather_group made; it and
/// `partial_data_parallel` are about the group with context parallelism.
Group get_data_parallel_group(bool with_context_parallel = false,
                              bool partial_data_parallel = false,
                              bool independent_all_gather = false);
bool has_separate_all_gather_group();
Group get_data_parallel_group_gloo(bool with_context_parallel = false,
                                   bool partial_data_parallel = false);

Group get_context_parallel_group();
std::optional<Group> get_context_parallel_group(bool check_initialized);
Ranks get_context_parallel_global_ranks();
std::optional<Ranks> get_context_parallel_global_ranks(bool check_initialized);

/// One a level, the innermost first.
std::vector<Group> get_hierarchical_context_parallel_groups();
std::optional<std::vector<Group>> get_hierarchical_context_parallel_groups(bool check_initialized);

/// The chunk of `group_size` ranks. Megatron never looks at `check_initialized` here.
Group get_hybrid_data_context_parallel_groups(bool check_initialized = true,
                                              std::optional<int64_t> group_size = std::nullopt);

Group get_embedding_group();
std::optional<Group> get_embedding_group(bool check_initialized);
Group get_position_embedding_group();
std::optional<Group> get_position_embedding_group(bool check_initialized);
Group get_amax_reduction_group(bool with_context_parallel = false, bool tp_only_amax_red = false);
Group get_tensor_and_data_parallel_group();
std::optional<Group> get_tensor_and_data_parallel_group(bool check_initialized,
                                                        bool with_context_parallel = false);
Group get_tensor_and_context_parallel_group();
std::optional<Group> get_tensor_and_context_parallel_group(bool check_initialized);

/// Groups of the experts.
Group get_expert_model_parallel_group();
std::optional<Group> get_expert_model_parallel_group(bool check_initialized);
Group get_expert_tensor_parallel_group();
std::optional<Group> get_expert_tensor_parallel_group(bool check_initialized);
Group get_expert_tensor_and_model_parallel_group();
std::optional<Group> get_expert_tensor_and_model_parallel_group(bool check_initialized);
Group get_expert_tensor_model_pipeline_parallel_group();
std::optional<Group> get_expert_tensor_model_pipeline_parallel_group(bool check_initialized);
Group get_expert_data_parallel_group();
std::optional<Group> get_expert_data_parallel_group(bool check_initialized,
                                                    bool partial_expert_data_parallel = false);
Group get_data_modulo_expert_parallel_group(bool partial_expert_data_parallel = false);
Group get_expert_data_parallel_group_gloo(bool partial_expert_data_parallel = false);

/// Optimizer instances: all ranks of this one, and this rank's counterparts in the others.
Group get_intra_distributed_optimizer_instance_group();
std::optional<Group> get_intra_distributed_optimizer_instance_group(bool check_initialized);
Group get_inter_distributed_optimizer_instance_group();
std::optional<Group> get_inter_distributed_optimizer_instance_group(bool check_initialized);

/// Overrides: sizes and ranks that the getters below answer from then on, until nullopt takes them
/// back. They work without a world, too.
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

/// Sizes of this rank's groups, and its rank in them. Data-parallel, context-parallel and expert
/// ones are 0 without a world.
int64_t get_tensor_model_parallel_world_size();
int64_t get_tensor_model_parallel_rank();
int64_t get_pipeline_model_parallel_world_size();
int64_t get_pipeline_model_parallel_rank();
int64_t get_data_parallel_world_size(bool with_context_parallel = false,
                                     bool partial_data_parallel = false);
int64_t get_data_parallel_rank(bool with_context_parallel = false,
                               bool partial_data_parallel = false);
int64_t get_context_parallel_world_size();
int64_t get_context_parallel_rank();
int64_t get_tensor_and_context_parallel_world_size();
int64_t get_tensor_and_context_parallel_rank();
int64_t get_expert_model_parallel_world_size();
int64_t get_expert_model_parallel_rank();

/// Without a group the override of the decoder's, or nothing.
std::optional<int64_t> get_expert_tensor_parallel_world_size();
std::optional<int64_t> get_expert_tensor_parallel_rank();

int64_t get_expert_tensor_and_model_parallel_world_size();
int64_t get_expert_tensor_and_model_parallel_rank();
int64_t get_expert_data_parallel_world_size(bool partial_expert_data_parallel = false);
int64_t get_expert_data_parallel_rank(bool partial_expert_data_parallel = false);

/// Nothing where the pipeline is not interleaved.
std::optional<int64_t> get_virtual_pipeline_model_parallel_world_size();
std::optional<int64_t> get_virtual_pipeline_model_parallel_rank();

/// Stages. With `ignore_virtual` false an interleaved pipeline needs `vp_stage`.
bool is_pipeline_first_stage(bool ignore_virtual = true,
                             std::optional<int64_t> vp_stage = std::nullopt);
bool is_pipeline_last_stage(bool ignore_virtual = true,
                            std::optional<int64_t> vp_stage = std::nullopt);
bool is_rank_in_embedding_group(bool ignore_virtual = true,
                                std::optional<int64_t> vp_stage = std::nullopt);
bool is_rank_in_position_embedding_group();

/// The first global rank of this rank's groups, and its neighbours in the pipeline, which is a
/// ring.
int64_t get_tensor_model_parallel_src_rank();
int64_t get_model_parallel_src_rank();
int64_t get_data_parallel_src_rank(bool with_context_parallel = false);
int64_t get_expert_model_parallel_src_rank();
int64_t get_pipeline_model_parallel_first_rank();
int64_t get_pipeline_model_parallel_last_rank();
int64_t get_pipeline_model_parallel_next_rank();
int64_t get_pipeline_model_parallel_prev_rank();

/// This rank as "tp_dp_cp_pp_ep".
std::string get_all_ranks();

/// **Collective** over the members. A group with a communicator of its own, whatever other groups
/// of these ranks there are; ranks are sorted. `backend` is gloo or nccl, the world's unless given.
Group create_group(const Ranks& ranks,
                   std::optional<std::chrono::milliseconds> timeout = std::nullopt,
                   const std::optional<std::string>& backend = std::nullopt,
                   const std::optional<NcclOptions>& pg_options = std::nullopt,
                   bool use_local_synchronization = false,
                   const std::optional<std::string>& group_desc = std::nullopt);

/// **Collective** over `ranks`. Level 0 are runs of sizes[0] ranks, level 1 joins sizes[1] of those
/// member by member, and so on. `pg_options` are none, one for all levels or one a level.
HierarchicalGroups create_hierarchical_groups(
    int64_t rank, const Ranks& ranks, const std::vector<int64_t>& hierarchical_group_sizes,
    bool create_gloo_process_groups = false, const std::vector<NcclOptions>& pg_options = {},
    std::optional<std::chrono::milliseconds> timeout = std::nullopt,
    const std::optional<std::string>& group_desc = std::nullopt);

/// **Collective** over `ranks`. Chunks of 2, 4, 8, … ranks, by their size.
std::map<int64_t, Group> create_hybrid_dp_cp_groups(int64_t rank, const Ranks& ranks,
                                                    const NcclOptions& pg_options = {});

/// **Collective** over the group, or over all ranks where none is given. Waits for them, then sets
/// the time-out of the group, or of the world and all groups made here.
void update_pg_timeout(std::chrono::milliseconds timeout,
                       const std::optional<Group>& pg = std::nullopt);

/// Scratch memory; see memory_buffer.h. initialize_model_parallel makes the first one.
void _set_global_memory_buffer();
GlobalMemoryBuffer& get_global_memory_buffer();
void destroy_global_memory_buffer();
void _set_global_symmetric_memory_buffer();
GlobalSymmetricMemoryBuffer& get_global_symmetric_memory_buffer();
void destroy_global_symmetric_memory_buffer();

/// The groups that the masked sizes span over ranks 0..world_size-1, first size fastest.
std::vector<Ranks> generate_masked_orthogonal_rank_groups(int64_t world_size,
                                                          const std::vector<int64_t>& parallel_size,
                                                          const std::vector<bool>& mask);

/// The stages that hold the word embeddings (the first and the last) and the position embeddings
/// (the first), unless a callback says otherwise.
Ranks default_embedding_ranks(const Ranks& pp_ranks);
Ranks default_position_embedding_ranks(const Ranks& pp_ranks);

/// The options of one kind of group; nothing where the configuration does not speak of it.
std::optional<NcclOptions> get_nccl_options(const std::string& pg_name,
                                            const NcclConfig& nccl_comm_cfgs);
/// Sets one option from its text, as it would stand in the file.
void overwrite_nccl_comm_cfgs(NcclConfig& nccl_comm_cfgs, const std::string& pg_name,
                              const std::pair<std::string, std::string>& key_value_pair);

}  // namespace megatron
}  // namespace tessera

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/comm/world.h"
#include "tessera/mesh/realize.h"
#include "tessera/plan/megatron/plan.h"
#include "tessera/plan/nccl_options.h"

namespace tessera {
namespace megatron TSR_API {

class GlobalMemoryBuffer;
class GlobalSymmetricMemoryBuffer;

using Ranks = std::vector<int64_t>;
using tessera::MegatronConfig;

/// This rank's group of every level of a hierarchy, and its Gloo twins: nothing for twins that were
/// not asked for. Empty where the rank is in none.
struct HierarchicalGroups {
  std::vector<Group> groups = {};
  std::vector<std::optional<Group>> gloo_groups = {};
};

/// Megatron-Core's parallel_state as a value: what its module keeps in variables. Several may
/// exist; the functions of parallel_state.h act on the current world's.
///
/// A getter that comes before initialize_model_parallel raises StateError; one for a group that the
/// configuration does not have, or that this rank is not in, ConfigError.
class ParallelState {
 public:
  /// Knows no world: holds overrides and buffers alone.
  ParallelState();
  explicit ParallelState(const WorldHandle& world);
  /// The same, beginning with the overrides and buffers of a state that knows no world.
  ParallelState(const WorldHandle& world, ParallelState before);
  ParallelState(ParallelState&&) noexcept;
  ParallelState& operator=(ParallelState&&) noexcept;
  ~ParallelState();

  /// What the groups were made from; StateError before initialize_model_parallel.
  const Plan& plan() const;
  /// Every group made here that this rank is in, in the order of creation.
  std::span<const Group> groups() const { return groups_; }

  // The functions of parallel_state.h, which says what each does.

  void initialize_model_parallel(const MegatronConfig& config = {});

  void destroy_model_parallel();

  bool is_initialized() const;
  bool is_unitialized() const;
  bool model_parallel_is_initialized() const;

  Group get_model_parallel_group() const;
  std::optional<Group> get_model_parallel_group(bool check_initialized) const;
  Group get_tensor_model_parallel_group() const;
  std::optional<Group> get_tensor_model_parallel_group(bool check_initialized) const;
  Group get_pipeline_model_parallel_group() const;
  std::optional<Group> get_pipeline_model_parallel_group(bool check_initialized) const;

  Group get_data_parallel_group(bool with_context_parallel = false,
                                bool partial_data_parallel = false,
                                bool independent_all_gather = false) const;
  bool has_separate_all_gather_group() const;
  Group get_data_parallel_group_gloo(bool with_context_parallel = false,
                                     bool partial_data_parallel = false) const;

  Group get_context_parallel_group() const;
  std::optional<Group> get_context_parallel_group(bool check_initialized) const;
  Ranks get_context_parallel_global_ranks() const;
  std::optional<Ranks> get_context_parallel_global_ranks(bool check_initialized) const;

  std::vector<Group> get_hierarchical_context_parallel_groups() const;
  std::optional<std::vector<Group>> get_hierarchical_context_parallel_groups(
      bool check_initialized) const;

  Group get_hybrid_data_context_parallel_groups(
      bool check_initialized = true, std::optional<int64_t> group_size = std::nullopt) const;

  Group get_embedding_group() const;
  std::optional<Group> get_embedding_group(bool check_initialized) const;
  Group get_position_embedding_group() const;
  std::optional<Group> get_position_embedding_group(bool check_initialized) const;
  Group get_amax_reduction_group(bool with_context_parallel = false,
                                 bool tp_only_amax_red = false) const;
  Group get_tensor_and_data_parallel_group() const;
  std::optional<Group> get_tensor_and_data_parallel_group(bool check_initialized,
                                                          bool with_context_parallel = false) const;
  Group get_tensor_and_context_parallel_group() const;
  std::optional<Group> get_tensor_and_context_parallel_group(bool check_initialized) const;

  Group get_expert_model_parallel_group() const;
  std::optional<Group> get_expert_model_parallel_group(bool check_initialized) const;
  Group get_expert_tensor_parallel_group() const;
  std::optional<Group> get_expert_tensor_parallel_group(bool check_initialized) const;
  Group get_expert_tensor_and_model_parallel_group() const;
  std::optional<Group> get_expert_tensor_and_model_parallel_group(bool check_initialized) const;
  Group get_expert_tensor_model_pipeline_parallel_group() const;
  std::optional<Group> get_expert_tensor_model_pipeline_parallel_group(
      bool check_initialized) const;
  Group get_expert_data_parallel_group() const;
  std::optional<Group> get_expert_data_parallel_group(
      bool check_initialized, bool partial_expert_data_parallel = false) const;
  Group get_data_modulo_expert_parallel_group(bool partial_expert_data_parallel = false) const;
  Group get_expert_data_parallel_group_gloo(bool partial_expert_data_parallel = false) const;

  Group get_intra_distributed_optimizer_instance_group() const;
  std::optional<Group> get_intra_distributed_optimizer_instance_group(bool check_initialized) const;
  Group get_inter_distributed_optimizer_instance_group() const;
  std::optional<Group> get_inter_distributed_optimizer_instance_group(bool check_initialized) const;

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

  int64_t get_tensor_model_parallel_world_size() const;
  int64_t get_tensor_model_parallel_rank() const;
  int64_t get_pipeline_model_parallel_world_size() const;
  int64_t get_pipeline_model_parallel_rank() const;
  int64_t get_data_parallel_world_size(bool with_context_parallel = false,
                                       bool partial_data_parallel = false) const;
  int64_t get_data_parallel_rank(bool with_context_parallel = false,
                                 bool partial_data_parallel = false) const;
  int64_t get_context_parallel_world_size() const;
  int64_t get_context_parallel_rank() const;
  int64_t get_tensor_and_context_parallel_world_size() const;
  int64_t get_tensor_and_context_parallel_rank() const;
  int64_t get_expert_model_parallel_world_size() const;
  int64_t get_expert_model_parallel_rank() const;

  std::optional<int64_t> get_expert_tensor_parallel_world_size() const;
  std::optional<int64_t> get_expert_tensor_parallel_rank() const;

  int64_t get_expert_tensor_and_model_parallel_world_size() const;
  int64_t get_expert_tensor_and_model_parallel_rank() const;
  int64_t get_expert_data_parallel_world_size(bool partial_expert_data_parallel = false) const;
  int64_t get_expert_data_parallel_rank(bool partial_expert_data_parallel = false) const;

  std::optional<int64_t> get_virtual_pipeline_model_parallel_world_size() const;
  std::optional<int64_t> get_virtual_pipeline_model_parallel_rank() const;

  bool is_pipeline_first_stage(bool ignore_virtual = true,
                               std::optional<int64_t> vp_stage = std::nullopt) const;
  bool is_pipeline_last_stage(bool ignore_virtual = true,
                              std::optional<int64_t> vp_stage = std::nullopt) const;
  bool is_rank_in_embedding_group(bool ignore_virtual = true,
                                  std::optional<int64_t> vp_stage = std::nullopt) const;
  bool is_rank_in_position_embedding_group() const;

  int64_t get_tensor_model_parallel_src_rank() const;
  int64_t get_model_parallel_src_rank() const;
  int64_t get_data_parallel_src_rank(bool with_context_parallel = false) const;
  int64_t get_expert_model_parallel_src_rank() const;
  int64_t get_pipeline_model_parallel_first_rank() const;
  int64_t get_pipeline_model_parallel_last_rank() const;
  int64_t get_pipeline_model_parallel_next_rank() const;
  int64_t get_pipeline_model_parallel_prev_rank() const;

  std::string get_all_ranks() const;

  Group create_group(const Ranks& ranks,
                     std::optional<std::chrono::milliseconds> timeout = std::nullopt,
                     const std::optional<std::string>& backend = std::nullopt,
                     const std::optional<NcclOptions>& pg_options = std::nullopt,
                     bool use_local_synchronization = false,
                     const std::optional<std::string>& group_desc = std::nullopt);

  HierarchicalGroups create_hierarchical_groups(
      int64_t rank, const Ranks& ranks, const std::vector<int64_t>& hierarchical_group_sizes,
      bool create_gloo_process_groups = false, const std::vector<NcclOptions>& pg_options = {},
      std::optional<std::chrono::milliseconds> timeout = std::nullopt,
      const std::optional<std::string>& group_desc = std::nullopt);

  std::map<int64_t, Group> create_hybrid_dp_cp_groups(int64_t rank, const Ranks& ranks,
                                                      const NcclOptions& pg_options = {});

  void update_pg_timeout(std::chrono::milliseconds timeout,
                         const std::optional<Group>& pg = std::nullopt);

  void _set_global_memory_buffer();
  GlobalMemoryBuffer& get_global_memory_buffer() const;
  void destroy_global_memory_buffer();
  void _set_global_symmetric_memory_buffer();
  GlobalSymmetricMemoryBuffer& get_global_symmetric_memory_buffer() const;
  void destroy_global_symmetric_memory_buffer();

 private:
  struct Override {
    std::optional<int64_t> size = std::nullopt;
    std::optional<int64_t> rank = std::nullopt;
  };

  const WorldHandle& world() const;
  const RealizedPlan& realized() const;
  /// The group of this name; ConfigError with the reason where this rank has none.
  Group need(std::string_view name) const;
  std::optional<Group> find(std::string_view name) const;
  std::optional<Group> get(std::string_view name, bool check_initialized) const;
  /// Whether the optimizer has several instances, so that data-parallel groups have parts.
  bool has_instances() const;
  void check_can_initialize() const;
  void keep_embedding_ranks();
  std::vector<Group> make_own(std::span<const GroupRequest> requests);
  std::vector<Group> make_own(std::span<const GroupSpec> specs, GlobalRank rank,
                              std::optional<std::chrono::milliseconds> timeout);
  int64_t pipeline_rank(int64_t index) const;
  int64_t pipeline_neighbour(int64_t distance) const;

  std::optional<WorldHandle> world_;
  std::optional<RealizedPlan> realized_;
  std::vector<Group> groups_;
  bool has_made_groups_ = false;  // Whether or not this rank is in any.
  Ranks embedding_ranks_;  // As the callback listed them; empty where this rank is not among them.
  Override tensor_;
  Override pipeline_;
  Override data_;
  Override expert_model_;
  Override expert_tensor_;
  Override virtual_pipeline_;
  std::unique_ptr<GlobalMemoryBuffer> buffer_;
  std::unique_ptr<GlobalSymmetricMemoryBuffer> symmetric_buffer_;
};

}  // namespace megatron
}  // namespace tessera

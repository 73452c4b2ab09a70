// The getters for groups.
#include "tessera/base/check.h"
#include "tessera/dialect/megatron/state.h"

namespace tessera::megatron {
namespace {

constexpr std::string_view kData = "DATA_PARALLEL_GROUP";
constexpr std::string_view kDataWithCp = "DATA_PARALLEL_GROUP_WITH_CP";
constexpr std::string_view kPartialData = "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP";
constexpr std::string_view kGather = "DATA_PARALLEL_GROUP_WITH_CP_AG";
constexpr std::string_view kTensor = "TENSOR_MODEL_PARALLEL_GROUP";
constexpr std::string_view kContext = "CONTEXT_PARALLEL_GROUP";
constexpr std::string_view kTensorAndContext = "TENSOR_AND_CONTEXT_PARALLEL_GROUP";
constexpr std::string_view kExpertData = "EXPERT_DATA_PARALLEL_GROUP";
constexpr std::string_view kGlooSuffix = "_GLOO";

// The argument of initialize_model_parallel that makes groups of this name.
std::string_view wanted_argument(std::string_view name) {
  if (name.find(kGlooSuffix) != name.npos) return "create_gloo_process_groups = true";
  if (name.ends_with("_AG")) return "create_all_gather_group = true";
  if (name.starts_with("HIERARCHICAL_CONTEXT")) return "hierarchical_context_parallel_sizes";
  return "num_distributed_optimizer_instances above 1";
}

std::string gloo(std::string_view name) {
  return concat(name, kGlooSuffix);
}

// The name of level `number` of this hierarchy.
std::string level(std::string_view name, size_t number) {
  return concat("HIERARCHICAL_", name, "_L", number);
}

Ranks to_integers(const Group& group) {
  Ranks ranks;
  for (const GlobalRank rank : group.ranks()) ranks.push_back(rank.value);
  return ranks;
}

void check_partial(bool with_context_parallel, bool partial_data_parallel) {
  TSR_CHECK(with_context_parallel || !partial_data_parallel,
            "partial data-parallel groups exist with context parallelism alone; pass "
            "with_context_parallel = true, too");
}

}  // namespace

const RealizedPlan& ParallelState::realized() const {
  if (!realized_) {
    throw StateError(
        "the model-parallel groups do not exist; call initialize_model_parallel first");
  }
  return *realized_;
}

std::optional<Group> ParallelState::find(std::string_view name) const {
  const Group* const group = realized_ ? realized_->find(name) : nullptr;
  return group == nullptr ? std::nullopt : std::optional(*group);
}

Group ParallelState::need(std::string_view name) const {
  const Group* const group = realized().find(name);
  if (group != nullptr) return *group;
  TSR_CHECK(plan().find(name) != nullptr, "there is no ", name, "; initialise with ",
            wanted_argument(name));
  throw ConfigError(concat("rank ", world().rank(), " is not in its pipeline's ", name,
                           "; ask is_rank_in_… first, or pass check_initialized = false"));
}

std::optional<Group> ParallelState::get(std::string_view name, bool check_initialized) const {
  return check_initialized ? need(name) : find(name);
}

bool ParallelState::has_instances() const {
  return realized_ && plan().find(kPartialData) != nullptr;
}

// Defines both getters of a group that does not depend on arguments: for a group that must exist,
// and for one that may.
#define TSR_GETTERS(function, name)                                            \
  Group ParallelState::function() const {                                      \
    return need(name);                                                         \
  }                                                                            \
  std::optional<Group> ParallelState::function(bool check_initialized) const { \
    return get(name, check_initialized);                                       \
  }

TSR_GETTERS(get_model_parallel_group, "MODEL_PARALLEL_GROUP")
TSR_GETTERS(get_tensor_model_parallel_group, kTensor)
TSR_GETTERS(get_pipeline_model_parallel_group, "PIPELINE_MODEL_PARALLEL_GROUP")
TSR_GETTERS(get_context_parallel_group, kContext)
TSR_GETTERS(get_embedding_group, "EMBEDDING_GROUP")
TSR_GETTERS(get_position_embedding_group, "POSITION_EMBEDDING_GROUP")
TSR_GETTERS(get_tensor_and_context_parallel_group, kTensorAndContext)
TSR_GETTERS(get_expert_model_parallel_group, "EXPERT_MODEL_PARALLEL_GROUP")
TSR_GETTERS(get_expert_tensor_parallel_group, "EXPERT_TENSOR_PARALLEL_GROUP")
TSR_GETTERS(get_expert_tensor_and_model_parallel_group, "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP")
TSR_GETTERS(get_expert_tensor_model_pipeline_parallel_group,
            "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP")
TSR_GETTERS(get_intra_distributed_optimizer_instance_group,
            "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP")
TSR_GETTERS(get_inter_distributed_optimizer_instance_group, level(kExpertData, 1))

#undef TSR_GETTERS

Group ParallelState::get_data_parallel_group(bool with_context_parallel, bool partial_data_parallel,
                                             bool independent_all_gather) const {
  check_partial(with_context_parallel, partial_data_parallel);
  if (!with_context_parallel) return need(kData);
  if (partial_data_parallel) return need(has_instances() ? kPartialData : kDataWithCp);
  return need(independent_all_gather ? kGather : kDataWithCp);
}

bool ParallelState::has_separate_all_gather_group() const {
  return find(kGather).has_value();
}

Group ParallelState::get_data_parallel_group_gloo(bool with_context_parallel,
                                                  bool partial_data_parallel) const {
  check_partial(with_context_parallel, partial_data_parallel);
  if (!with_context_parallel) return need(gloo(kData));
  if (!partial_data_parallel) return need(gloo(kDataWithCp));
  return need(gloo(has_instances() ? kPartialData : kDataWithCp));
}

Ranks ParallelState::get_context_parallel_global_ranks() const {
  return to_integers(need(kContext));
}
std::optional<Ranks> ParallelState::get_context_parallel_global_ranks(
    bool check_initialized) const {
  const std::optional<Group> group = get(kContext, check_initialized);
  return group ? std::optional(to_integers(*group)) : std::nullopt;
}

std::vector<Group> ParallelState::get_hierarchical_context_parallel_groups() const {
  return *get_hierarchical_context_parallel_groups(true);
}
std::optional<std::vector<Group>> ParallelState::get_hierarchical_context_parallel_groups(
    bool check_initialized) const {
  std::vector<Group> levels;
  while (const auto group = find(level(kContext, levels.size()))) levels.push_back(*group);
  if (!levels.empty()) return levels;
  if (check_initialized) (void)need(level(kContext, 0));  // Throws with the reason.
  return std::nullopt;
}

Group ParallelState::get_hybrid_data_context_parallel_groups(
    bool /*check_initialized*/, std::optional<int64_t> group_size) const {
  TSR_CHECK(group_size, "no group_size was given; the chunks of dp-cp groups are asked for by it");
  const Group whole = need(kDataWithCp);
  if (*group_size == whole.size()) return whole;
  const auto chunk = find(concat("HYBRID_DP_CP_GROUP_", *group_size));
  TSR_CHECK(chunk, "there are no chunks of ", *group_size, " ranks of the ", whole.size(),
            " of dp-cp; initialise with hybrid_context_parallel = true, and ask for a power of two "
            "below the largest that fits, or for all of them");
  return *chunk;
}

Group ParallelState::get_amax_reduction_group(bool with_context_parallel,
                                              bool tp_only_amax_red) const {
  if (!tp_only_amax_red) return *get_tensor_and_data_parallel_group(true, with_context_parallel);
  return need(with_context_parallel ? kTensorAndContext : kTensor);
}

Group ParallelState::get_tensor_and_data_parallel_group() const {
  return *get_tensor_and_data_parallel_group(true);
}
std::optional<Group> ParallelState::get_tensor_and_data_parallel_group(
    bool check_initialized, bool with_context_parallel) const {
  return get(with_context_parallel ? "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP"
                                   : "TENSOR_AND_DATA_PARALLEL_GROUP",
             check_initialized);
}

Group ParallelState::get_expert_data_parallel_group() const {
  return *get_expert_data_parallel_group(true);
}
std::optional<Group> ParallelState::get_expert_data_parallel_group(
    bool check_initialized, bool partial_expert_data_parallel) const {
  const bool part = partial_expert_data_parallel && has_instances();
  return get(part ? level(kExpertData, 0) : std::string(kExpertData), check_initialized);
}

Group ParallelState::get_data_modulo_expert_parallel_group(
    bool partial_expert_data_parallel) const {
  return *get_expert_data_parallel_group(true, partial_expert_data_parallel);
}

Group ParallelState::get_expert_data_parallel_group_gloo(bool partial_expert_data_parallel) const {
  const bool part = partial_expert_data_parallel && has_instances();
  return need(part ? level(gloo(kExpertData), 0) : gloo(kExpertData));
}

}  // namespace tessera::megatron

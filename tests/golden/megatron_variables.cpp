#include "tests/golden/megatron_variables.h"

#include <algorithm>
#include <map>
#include <string>

#include "tessera/dialect/megatron/parallel_state.h"
#include "tests/golden/megatron_getters.h"

namespace tessera::golden {
namespace {

using Getters = std::map<std::string, std::string>;

constexpr const char* kGroupList = "_global_process_group_list";
constexpr const char* kNeverNone = "_HYBRID_DP_CP_GROUPS";  // An empty dictionary at first.

// Variables with a getter of their own.
const Getters& getters() {
  static const Getters kGetters{
      {"_CONTEXT_PARALLEL_GLOBAL_RANKS", "get_context_parallel_global_ranks()"},
      {"_CONTEXT_PARALLEL_GROUP", "get_context_parallel_group()"},
      {"_DATA_PARALLEL_GLOBAL_RANKS", "get_data_parallel_src_rank()"},
      {"_DATA_PARALLEL_GLOBAL_RANKS_WITH_CP",
       "get_data_parallel_src_rank(with_context_parallel=True)"},
      {"_DATA_PARALLEL_GROUP", "get_data_parallel_group()"},
      {"_DATA_PARALLEL_GROUP_GLOO", "get_data_parallel_group_gloo()"},
      {"_DATA_PARALLEL_GROUP_WITH_CP", "get_data_parallel_group(with_context_parallel=True)"},
      {"_DATA_PARALLEL_GROUP_WITH_CP_AG",
       "get_data_parallel_group(with_context_parallel=True,independent_all_gather=True)"},
      {"_DATA_PARALLEL_GROUP_WITH_CP_GLOO",
       "get_data_parallel_group_gloo(with_context_parallel=True)"},
      {"_EMBEDDING_GLOBAL_RANKS", "is_rank_in_embedding_group()"},
      {"_EMBEDDING_GROUP", "get_embedding_group()"},
      {"_EXPERT_DATA_PARALLEL_GROUP", "get_expert_data_parallel_group()"},
      {"_EXPERT_DATA_PARALLEL_GROUP_GLOO", "get_expert_data_parallel_group_gloo()"},
      {"_EXPERT_MODEL_PARALLEL_GROUP", "get_expert_model_parallel_group()"},
      {"_EXPERT_MODEL_PARALLEL_RANKS", "get_expert_model_parallel_src_rank()"},
      {"_EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "get_expert_tensor_and_model_parallel_group()"},
      {"_EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
       "get_expert_tensor_model_pipeline_parallel_group()"},
      {"_EXPERT_TENSOR_PARALLEL_GROUP", "get_expert_tensor_parallel_group()"},
      {"_GLOBAL_MEMORY_BUFFER", "get_global_memory_buffer()"},
      {"_GLOBAL_SYMMETRIC_MEMORY_BUFFER", "get_global_symmetric_memory_buffer()"},
      {"_HIERARCHICAL_CONTEXT_PARALLEL_GROUPS", "get_hierarchical_context_parallel_groups()"},
      {"_INTER_PARTIAL_EXPERT_DATA_PARALLEL_GROUP",
       "get_inter_distributed_optimizer_instance_group()"},
      {"_INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",
       "get_intra_distributed_optimizer_instance_group()"},
      {"_INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
       "get_data_parallel_group(with_context_parallel=True,partial_data_parallel=True)"},
      {"_INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO",
       "get_data_parallel_group_gloo(with_context_parallel=True,partial_data_parallel=True)"},
      {"_INTRA_PARTIAL_EXPERT_DATA_PARALLEL_GROUP",
       "get_expert_data_parallel_group(partial_expert_data_parallel=True)"},
      {"_INTRA_PARTIAL_EXPERT_DATA_PARALLEL_GROUP_GLOO",
       "get_expert_data_parallel_group_gloo(partial_expert_data_parallel=True)"},
      {"_MODEL_PARALLEL_GLOBAL_RANKS", "get_model_parallel_src_rank()"},
      {"_MODEL_PARALLEL_GROUP", "get_model_parallel_group()"},
      {"_PIPELINE_GLOBAL_RANKS", "get_pipeline_model_parallel_first_rank()"},
      {"_PIPELINE_MODEL_PARALLEL_GROUP", "get_pipeline_model_parallel_group()"},
      {"_POSITION_EMBEDDING_GLOBAL_RANKS", "is_rank_in_position_embedding_group()"},
      {"_POSITION_EMBEDDING_GROUP", "get_position_embedding_group()"},
      {"_TENSOR_AND_CONTEXT_PARALLEL_GROUP", "get_tensor_and_context_parallel_group()"},
      {"_TENSOR_AND_DATA_PARALLEL_GROUP", "get_tensor_and_data_parallel_group()"},
      {"_TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP",
       "get_tensor_and_data_parallel_group(with_context_parallel=True)"},
      {"_TENSOR_MODEL_PARALLEL_GLOBAL_RANKS", "get_tensor_model_parallel_src_rank()"},
      {"_TENSOR_MODEL_PARALLEL_GROUP", "get_tensor_model_parallel_group()"},
      {"_VIRTUAL_PIPELINE_MODEL_PARALLEL_RANK", "get_virtual_pipeline_model_parallel_rank()"},
      {"_VIRTUAL_PIPELINE_MODEL_PARALLEL_WORLD_SIZE",
       "get_virtual_pipeline_model_parallel_world_size()"},
  };
  return kGetters;
}

// What overrides a size or a rank.
const Getters& getters_of_overrides() {
  static const Getters kGetters{
      {"_MPU_DATA_PARALLEL_RANK", "get_data_parallel_rank()"},
      {"_MPU_DATA_PARALLEL_WORLD_SIZE", "get_data_parallel_world_size()"},
      {"_MPU_EXPERT_MODEL_PARALLEL_RANK", "get_expert_model_parallel_rank()"},
      {"_MPU_EXPERT_MODEL_PARALLEL_WORLD_SIZE", "get_expert_model_parallel_world_size()"},
      {"_MPU_EXPERT_TENSOR_PARALLEL_RANK", "get_expert_tensor_parallel_rank()"},
      {"_MPU_EXPERT_TENSOR_PARALLEL_WORLD_SIZE", "get_expert_tensor_parallel_world_size()"},
      {"_MPU_PIPELINE_MODEL_PARALLEL_RANK", "get_pipeline_model_parallel_rank()"},
      {"_MPU_PIPELINE_MODEL_PARALLEL_WORLD_SIZE", "get_pipeline_model_parallel_world_size()"},
      {"_MPU_TENSOR_MODEL_PARALLEL_RANK", "get_tensor_model_parallel_rank()"},
      {"_MPU_TENSOR_MODEL_PARALLEL_WORLD_SIZE", "get_tensor_model_parallel_world_size()"},
  };
  return kGetters;
}

Json answering(const Getters& getters) {
  const auto as_zero = [](const Group&) { return Json(0); };
  Json names = Json::array();
  for (const auto& [variable, label] : getters) {
    const Json answer = answer_of(parse_call(label), as_zero);
    if (answer != refusal() && answer != false && !answer.is_null()) names.push_back(variable);
  }
  return names;
}

bool contains(const Json& list, const Json& entry) {
  return std::ranges::find(list, entry) != list.end();
}

}  // namespace

Json held_variables(bool made_groups) {
  Json held{{"hold", answering(getters())}, {"overrides", answering(getters_of_overrides())}};
  const bool in_a_group = !megatron::parallel_state().groups().empty();
  if (in_a_group || made_groups) held[in_a_group ? "hold" : "overrides"].push_back(kGroupList);
  return held;
}

Json expected_variables(const Json& peers, const Json& held) {
  Json expected{{"hold", Json::array()}, {"overrides", held.at("overrides")}};
  for (const std::string variable : peers) {
    if (variable == kNeverNone || contains(held.at("overrides"), variable)) continue;
    if (variable != kGroupList && !getters_of_overrides().contains(variable)) {
      known(getters(), "variable", variable);
    }
    expected["hold"].push_back(variable);
  }
  std::sort(expected["hold"].begin(), expected["hold"].end());
  return expected;
}

}  // namespace tessera::golden

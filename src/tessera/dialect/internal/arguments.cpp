#include "tessera/dialect/internal/arguments.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/text.h"
#include "tessera/comm/groups.h"
#include "tessera/plan/olmo/json.h"

namespace tessera::dialect::detail {
namespace {

std::string text_of(const std::string& value) {
  return concat("'", value, "'");
}
std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(int64_t value) {
  return std::to_string(value);
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  return concat("[", join(values, ", "), "]");
}
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "None";
}
// A function itself cannot be compared; the groups made from its result are.
std::string text_of(const EmbeddingRanks& function) {
  return function ? "a function" : "None";
}

}  // namespace

Lines lines_of(const MegatronConfig& config) {
  Lines lines;
  const auto add = [&](const char* name, const auto& value) {
    lines.push_back(concat(name, " ", text_of(value)));
  };
  add("tensor_model_parallel_size", config.tensor_model_parallel_size);
  add("pipeline_model_parallel_size", config.pipeline_model_parallel_size);
  add("virtual_pipeline_model_parallel_size", config.virtual_pipeline_model_parallel_size);
  add("pipeline_model_parallel_comm_backend", config.pipeline_model_parallel_comm_backend);
  add("use_sharp", config.use_sharp);
  add("context_parallel_size", config.context_parallel_size);
  add("hierarchical_context_parallel_sizes", config.hierarchical_context_parallel_sizes);
  add("expert_model_parallel_size", config.expert_model_parallel_size);
  add("num_distributed_optimizer_instances", config.num_distributed_optimizer_instances);
  add("expert_tensor_parallel_size", config.expert_tensor_parallel_size);
  add("distributed_timeout_minutes", config.distributed_timeout_minutes);
  add("order", config.order);
  add("get_embedding_ranks", config.get_embedding_ranks);
  add("get_position_embedding_ranks", config.get_position_embedding_ranks);
  add("create_gloo_process_groups", config.create_gloo_process_groups);
  add("high_priority_stream_groups", config.high_priority_stream_groups);
  add("sharp_enabled_group", config.sharp_enabled_group);
  add("hybrid_context_parallel", config.hybrid_context_parallel);
  add("create_all_gather_group", config.create_all_gather_group);
  return lines;
}

Lines lines_of(const nemo::DistributedConfig& config, const nemo::ParallelismSizes& sizes,
               const nemo::MeshOptions& options) {
  const bool document = options.moe_mesh == nemo::MoeMesh::kDocument;
  return {concat("strategy ", nemo::strategy_name(config)),
          concat("backend ", std::visit([](const auto& c) { return text_of(c.backend); }, config)),
          concat("dp_size ", text_of(sizes.dp_size)),
          concat("dp_replicate_size ", text_of(sizes.dp_replicate_size)),
          concat("tp_size ", sizes.tp_size),
          concat("pp_size ", sizes.pp_size),
          concat("cp_size ", sizes.cp_size),
          concat("ep_size ", sizes.ep_size),
          concat("moe_mesh ", document ? "kDocument" : "kToday"),
          concat("timeout_minutes ", text_of(options.timeout_minutes)),
          concat("ranks ", text_of(options.ranks))};
}

Lines lines_of(const olmo::WorldMeshConfig& config, const std::optional<std::string>& device_type,
               int64_t num_nodes) {
  Lines lines;
  const nlohmann::json fields = nlohmann::json(config).flatten();
  for (const auto& [path, value] : fields.items()) {
    std::string name = path.substr(1);
    std::ranges::replace(name, '/', '.');
    lines.push_back(concat(name, " ", value.dump()));
  }
  lines.push_back(concat("device_type ", text_of(device_type)));
  lines.push_back(concat("NUM_NODES ", num_nodes));
  return lines;
}

void check_same_arguments(const Group& group, const std::string& call, const Lines& lines) {
  check_same(group, concat("the arguments of ", call, " differ on the ranks"), lines);
}

}  // namespace tessera::dialect::detail

#include "tests/golden/megatron_life.h"

#include <ATen/core/Tensor.h>

#include "tessera/base/check.h"
#include "tessera/dialect/megatron/memory_buffer.h"
#include "tessera/dialect/megatron/parallel_state.h"
#include "tests/golden/megatron_case.h"
#include "tests/golden/megatron_getters.h"
#include "tests/golden/plan_json.h"

namespace tessera::golden {
namespace {

namespace m = tessera::megatron;

// The getter through which each of the peer's variables is seen.
const std::map<std::string, std::string>& getter_of_variable() {
  static const std::map<std::string, std::string> kGetters{
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
      {"_HIERARCHICAL_CONTEXT_PARALLEL_GROUPS", "get_hierarchical_context_parallel_groups()"},
      {"_HYBRID_DP_CP_GROUPS", "get_hybrid_data_context_parallel_groups(group_size=2)"},
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
  };
  return kGetters;
}

bool names_group(const std::string& variable) {
  return variable.ends_with("_GROUP") || variable.ends_with("_GROUPS") ||
         variable.find("_GROUP_") != variable.npos;
}

// The peer's variables that hold something, as far as ours answer likewise.
Json variables_that_hold() {
  Json held = Json::array();
  for (const auto& [variable, label] : getter_of_variable()) {
    const Call call = parse_call(label);
    const Json answer = names_group(variable) ? group_answer(call, 0) : value_answer(call);
    if (answer != refusal() && answer != false) held.push_back(variable);
  }
  if (!m::parallel_state().groups().empty()) held.push_back("_global_process_group_list");
  return held;
}

Json init(const Json& arguments) {
  const MegatronArguments parsed(arguments);
  return answer_or_refusal([&]() -> Json {
    m::initialize_model_parallel(parsed.config());
    return {{"new_groups", m::parallel_state().plan().num_groups()}};
  });
}

using Setter = void (*)(std::optional<int64_t>);

Json call(const Json& op) {
  static const std::map<std::string, Setter> kSetters{
      {"set_tensor_model_parallel_world_size", m::set_tensor_model_parallel_world_size},
      {"set_tensor_model_parallel_rank", m::set_tensor_model_parallel_rank},
      {"set_pipeline_model_parallel_world_size", m::set_pipeline_model_parallel_world_size},
      {"set_pipeline_model_parallel_rank", m::set_pipeline_model_parallel_rank},
      {"set_data_parallel_rank", m::set_data_parallel_rank},
      {"set_expert_model_parallel_world_size", m::set_expert_model_parallel_world_size},
      {"set_expert_model_parallel_rank", m::set_expert_model_parallel_rank},
      {"set_expert_tensor_parallel_world_size", m::set_expert_tensor_parallel_world_size},
      {"set_expert_tensor_parallel_rank", m::set_expert_tensor_parallel_rank},
      {"set_virtual_pipeline_model_parallel_world_size",
       m::set_virtual_pipeline_model_parallel_world_size},
      {"set_virtual_pipeline_model_parallel_rank", m::set_virtual_pipeline_model_parallel_rank},
  };
  static const std::map<std::string, void (*)()> kCalls{
      {"destroy_model_parallel", m::destroy_model_parallel},
      {"_set_global_memory_buffer", m::_set_global_memory_buffer},
      {"destroy_global_memory_buffer", m::destroy_global_memory_buffer},
  };
  const std::string name = op.at(1);
  return answer_or_refusal([&]() -> Json {
    if (op.size() == 2) {
      kCalls.at(name)();
    } else {
      kSetters.at(name)(op[2].is_null() ? std::nullopt : std::optional<int64_t>(op[2]));
    }
    return nullptr;
  });
}

// Which groups wait so long now: null is the world.
Json groups_with_timeout(std::chrono::seconds timeout, int64_t first) {
  Json groups = Json::array();
  if (World::current()->group().timeout() == timeout) groups.push_back(nullptr);
  for (const Group& group : m::parallel_state().groups()) {
    if (group.timeout() == timeout) groups.push_back(index_of(group, first));
  }
  return groups;
}

Json update_timeout(const Json& op, int64_t first) {
  const std::chrono::seconds timeout(op.at(1).get<int64_t>());
  return answer_or_refusal([&] {
    std::optional<Group> group;
    if (op.at(2) == "get_tensor_model_parallel_group") group = m::get_tensor_model_parallel_group();
    m::update_pg_timeout(timeout, group);
    return groups_with_timeout(timeout, first);
  });
}

Json create_group(const Json& arguments) {
  return answer_or_refusal([&]() -> Json {
    std::optional<std::chrono::milliseconds> timeout;
    if (arguments.contains("timeout")) timeout = std::chrono::seconds(arguments.at("timeout"));
    std::optional<std::string> backend;
    if (arguments.contains("backend")) backend = arguments.at("backend");
    std::optional<std::string> name;
    if (arguments.contains("group_desc")) name = arguments.at("group_desc");
    const Group group = m::create_group(arguments.value("ranks", m::Ranks()), timeout, backend,
                                        std::nullopt, false, name);
    Json answer{{"member", group.is_member()},
                {"ranks", to_json(RankGroup(group.ranks().begin(), group.ranks().end()))},
                {"list_len", m::parallel_state().groups().size() + 1}};
    if (name) answer["name"] = group.name();
    if (timeout) answer["timeout_s"] = static_cast<double>(group.timeout().count()) / 1000;
    return answer;
  });
}

Json all_groups() {
  Json groups = Json::array();
  m::parallel_state().plan().for_each_group([&](const GroupSpec& spec, const RankGroup& ranks) {
    groups.push_back({{"name", spec.name}, {"ranks", to_json(ranks)}});
  });
  return groups;
}

Json nccl_options(const Json& op) {
  return nccl_options_answer(op.at(1), op.at(2).dump(1));
}

Json overwrite(const Json& op) {
  NcclConfig config = parse_nccl_config(op.at(1).dump(1), "the table");
  m::overwrite_nccl_comm_cfgs(config, op.at(2), {op.at(3).at(0), op.at(3).at(1).dump()});
  Json sections = Json::object();
  for (const auto& [name, options] : config) sections[name] = to_json(options);
  return sections;
}

at::ScalarType dtype_named(const std::string& name) {
  static const std::map<std::string, at::ScalarType> kTypes{
      {"float32", at::kFloat}, {"float16", at::kHalf}, {"int64", at::kLong}};
  return kTypes.at(name);
}

Json stateless_answer(const Json& op) {
  const std::string kind = op.at(0);
  if (kind == "create_group") return create_group(op.at(1));
  if (kind == "nccl_options") return nccl_options(op);
  if (kind == "overwrite") return overwrite(op);
  return answer_or_refusal([&]() -> Json {
    if (kind == "default_embedding_ranks") return m::default_embedding_ranks(op.at(1));
    if (kind == "default_position_embedding_ranks") {
      return m::default_position_embedding_ranks(op.at(1));
    }
    throw InternalError(concat("the table has an operation '", kind, "' that is not known here"));
  });
}

}  // namespace

Life::Life(const Json& test_case) : test_case_(test_case), surroundings_(Json::object()) {
  m::destroy_model_parallel();  // What an earlier life has set without a world.
}

Json Life::answer(const Json& op, int64_t first) {
  const std::string kind = op.at(0);
  const Call asked{op.size() > 1 && op[1].is_string() ? op[1].get<std::string>() : "",
                   op.size() > 2 && op[2].is_object() ? op[2] : Json::object()};
  if (kind == "init_dist") {
    World::make_current(World::fake(GlobalRank{op.at(1).get<int64_t>()}, op.at(2)));
    return nullptr;
  }
  if (kind == "init") return init(op.at(1));
  if (kind == "snapshot" || kind == "snapshot_msg") return snapshot(test_case_, first);
  if (kind == "value") return value_answer(asked);
  if (kind == "group") return group_answer(asked, first);
  if (kind == "call") return call(op);
  if (kind == "globals_not_none") return variables_that_hold();
  if (kind == "groups") return all_groups();
  if (kind == "update_pg_timeout") return update_timeout(op, first);
  if (kind == "buffer") return buffer(op);
  return stateless_answer(op);
}

// The storage that a buffer had before tells whether it is a new one.
Json Life::buffer(const Json& op) {
  return answer_or_refusal([&]() -> Json {
    m::GlobalMemoryBuffer& buffers = m::get_global_memory_buffer();
    const std::string dtype = op.at(2);
    const at::Tensor tensor =
        buffers.get_tensor(op.at(1).get<std::vector<int64_t>>(), dtype_named(dtype), op.at(3));
    const void* const storage = tensor.storage().data();
    const void*& before = storages_[dtype + " " + op.at(3).get<std::string>()];
    const bool reallocated = before != storage;
    before = storage;
    return {{"shape", tensor.sizes().vec()},
            {"buffer_numel", tensor.storage().nbytes() / tensor.element_size()},
            {"reallocated", reallocated},
            {"offset", tensor.storage_offset()},
            {"num_buffers", buffers.num_buffers()}};
  });
}

Json nccl_options_answer(const std::string& name, const std::string& yaml) {
  return answer_or_refusal([&]() -> Json {
    const auto options = m::get_nccl_options(name, parse_nccl_config(yaml, "the table"));
    return options ? to_json(*options) : Json(nullptr);
  });
}

}  // namespace tessera::golden

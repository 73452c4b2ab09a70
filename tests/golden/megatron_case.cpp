#include "tests/golden/megatron_case.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/base/check.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using Ranks = std::vector<int64_t>;

Ranks even_stages(const Ranks& ranks) {
  Ranks even;
  for (size_t i = 0; i < ranks.size(); i += 2) even.push_back(ranks[i]);
  return even;
}

// The callbacks that the table names; it says in words what each returns.
EmbeddingRanks callback(const std::string& name) {
  static const std::map<std::string, EmbeddingRanks> kCallbacks{
      {"all", [](const Ranks& r) { return r; }},
      {"first", [](const Ranks& r) { return Ranks{r.front()}; }},
      {"last", [](const Ranks& r) { return Ranks{r.back()}; }},
      {"last_first", [](const Ranks& r) { return r.size() == 1 ? r : Ranks{r.back(), r.front()}; }},
      {"first_mid_last",
       [](const Ranks& r) {
         return r.size() <= 2 ? r : Ranks{r.front(), r[r.size() / 2], r.back()};
       }},
      {"even_stages", even_stages},
      {"dup_first", [](const Ranks& r) { return Ranks{r.front(), r.front()}; }},
      {"out_of_range", [](const Ranks& r) { return Ranks{r.front(), 1'000'000}; }},
      {"empty", [](const Ranks&) { return Ranks{}; }},
  };
  return known(kCallbacks, "callback", name);
}

template <class Value>
void take(Json& arguments, const char* name, Value& value) {
  const Json given = value_or(arguments, name, nullptr);
  if (!given.is_null()) value = given.get<Value>();
  arguments.erase(name);
}

template <class Value>
void take(Json& arguments, const char* name, std::optional<Value>& value) {
  const Json given = value_or(arguments, name, nullptr);
  if (!given.is_null()) value = given.get<Value>();
  arguments.erase(name);
}

void take_callback(Json& arguments, const char* name, EmbeddingRanks& value) {
  std::string chosen;
  take(arguments, name, chosen);
  if (!chosen.empty()) value = callback(chosen);
}

// The table's keyword arguments; one that is not known would go unchecked, so it is an error.
MegatronConfig config_of(Json arguments) {
  MegatronConfig c;
  take(arguments, "tensor_model_parallel_size", c.tensor_model_parallel_size);
  take(arguments, "pipeline_model_parallel_size", c.pipeline_model_parallel_size);
  take(arguments, "virtual_pipeline_model_parallel_size", c.virtual_pipeline_model_parallel_size);
  take(arguments, "pipeline_model_parallel_comm_backend", c.pipeline_model_parallel_comm_backend);
  take(arguments, "use_sharp", c.use_sharp);
  take(arguments, "context_parallel_size", c.context_parallel_size);
  take(arguments, "hierarchical_context_parallel_sizes", c.hierarchical_context_parallel_sizes);
  take(arguments, "expert_model_parallel_size", c.expert_model_parallel_size);
  take(arguments, "num_distributed_optimizer_instances", c.num_distributed_optimizer_instances);
  take(arguments, "expert_tensor_parallel_size", c.expert_tensor_parallel_size);
  take(arguments, "nccl_communicator_config_path", c.nccl_communicator_config_path);
  take(arguments, "distributed_timeout_minutes", c.distributed_timeout_minutes);
  take(arguments, "order", c.order);
  take_callback(arguments, "get_embedding_ranks", c.get_embedding_ranks);
  take_callback(arguments, "get_position_embedding_ranks", c.get_position_embedding_ranks);
  take(arguments, "create_gloo_process_groups", c.create_gloo_process_groups);
  take(arguments, "high_priority_stream_groups", c.high_priority_stream_groups);
  take(arguments, "sharp_enabled_group", c.sharp_enabled_group);
  take(arguments, "hybrid_context_parallel", c.hybrid_context_parallel);
  take(arguments, "create_all_gather_group", c.create_all_gather_group);
  if (!arguments.empty()) throw UnknownName("argument", arguments.begin().key());
  return c;
}

const Rule* size_rule(const Json& arguments) {
  for (const char* name : {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                           "virtual_pipeline_model_parallel_size", "context_parallel_size",
                           "expert_model_parallel_size", "num_distributed_optimizer_instances",
                           "expert_tensor_parallel_size", "distributed_timeout_minutes",
                           "hierarchical_context_parallel_sizes"}) {
    if (const Rule* const rule = rules::of_size(value_or(arguments, name, nullptr))) return rule;
  }
  return nullptr;
}

bool names_unknown_group(const Json& arguments) {
  const Json names = value_or(arguments, "high_priority_stream_groups", Json::array());
  return !std::ranges::all_of(names, [](const Json& name) { return is_nccl_section(name); });
}

bool is_one_of(const std::string& text, const std::set<std::string>& words) {
  return words.contains(to_lower(text));
}

// What each key may say; what is not known is another rule's.
bool is_good_option(const std::string& key, const YAML::Node& value) {
  if (!is_nccl_key(key)) return true;
  if (!value.IsScalar()) return false;
  const std::string& text = value.Scalar();
  const int64_t number = to_integer(text).value_or(-1);
  if (key == "is_high_priority_stream") {
    return is_one_of(text, {"true", "false", "yes", "no", "on", "off"});
  }
  if (key == "net_name") return is_one_of(text, {"ib", "socket"});
  return key == "cga_cluster_size" ? 0 <= number && number <= 8 : number >= 1;
}

bool is_good_section(const YAML::Node& section) {
  if (!section.IsMap()) return false;
  for (const auto& entry : section) {
    if (!is_good_option(entry.first.Scalar(), entry.second)) return false;
  }
  const YAML::Node least = section["min_ctas"];
  const YAML::Node most = section["max_ctas"];
  return !least || !most || least.as<int>() <= most.as<int>();
}

// The peer looks at a section when a group uses it, and never at what it does not know.
struct NcclFile {
  bool has_unknown = false;
  bool has_bad_value = false;
  YAML::Node known;  // What Megatron knows of it.
};

NcclFile inspect(const std::string& yaml) {
  NcclFile file;
  for (const auto& section : YAML::Load(yaml)) {
    const auto name = section.first.as<std::string>();
    const bool is_section = is_nccl_section(name);
    file.has_unknown |= !is_section;
    file.has_bad_value |= is_section && !is_good_section(section.second);
    if (!is_section || !section.second.IsMap()) continue;
    file.known[name] = YAML::Node(YAML::NodeType::Map);
    for (const auto& entry : section.second) {
      const auto key = entry.first.as<std::string>();
      file.has_unknown |= !is_nccl_key(key);
      if (is_nccl_key(key)) file.known[name][key] = entry.second;
    }
  }
  return file;
}

}  // namespace

Json arguments_of(const Json& test_case) {
  Json arguments = Json::object();
  for (const auto& [name, value] : test_case.at("args").items()) {
    if (!value.is_null()) arguments[name] = value;
  }
  if (value_or(test_case, "use_tp_pp_dp_mapping", false) && !arguments.contains("order")) {
    arguments["order"] = "tp-cp-ep-pp-dp";
  }
  return arguments;
}

bool is_nccl_section(const std::string& name) {
  return std::ranges::find(nccl_sections(), name) != nccl_sections().end();
}

bool is_nccl_key(const std::string& key) {
  static const std::set<std::string> kKeys{"is_high_priority_stream", "cga_cluster_size",
                                           "min_ctas", "max_ctas", "net_name"};
  return kKeys.contains(key);
}

const Rule* nccl_rule(const std::string& yaml) {
  const NcclFile file = inspect(yaml);
  if (file.has_bad_value) return &rules::kBadNcclValue;
  return file.has_unknown ? &rules::kUnknownNcclName : nullptr;
}

const Rule* refusal_rule(const Json& arguments) {
  if (const Rule* const rule = size_rule(arguments)) return rule;
  if (const Rule* const rule = rules::of_order(value_or(arguments, "order", ""))) return rule;
  if (arguments.contains("nccl_yaml")) {
    const Rule* const rule = nccl_rule(arguments.at("nccl_yaml").get<std::string>());
    if (rule != nullptr) return rule;
  }
  return names_unknown_group(arguments) ? &rules::kUnknownNcclName : nullptr;
}

Json without_unknown_names(Json arguments) {
  Json groups = Json::array();
  for (const Json& name : value_or(arguments, "high_priority_stream_groups", Json::array())) {
    if (is_nccl_section(name)) groups.push_back(name);
  }
  arguments["high_priority_stream_groups"] = groups;
  if (arguments.contains("nccl_yaml")) {
    const YAML::Node sections = inspect(arguments.at("nccl_yaml").get<std::string>()).known;
    arguments["nccl_yaml"] = YAML::Dump(sections);
    if (sections.size() == 0) arguments.erase("nccl_yaml");  // Nothing is left to be said.
  }
  return arguments;
}

Json known_nccl_options(const Json& sections) {
  Json all_known = Json::object();
  for (const auto& [name, section] : sections.items()) {
    if (!is_nccl_section(name)) continue;
    all_known[name] = Json::object();
    for (const auto& [key, value] : section.items()) {
      if (is_nccl_key(key)) all_known[name][key] = value;
    }
  }
  return all_known;
}

std::optional<std::string> lower_case_order(const Json& arguments) {
  const std::string order = value_or(arguments, "order", "");
  const std::string lower = to_lower(order);
  if (!lower.ends_with("pp") || order.ends_with("pp")) return std::nullopt;
  return lower;
}

Json without_defaults(Json options) {
  if (!options.is_object()) return options;
  if (!options.value("is_high_priority_stream", false)) options.erase("is_high_priority_stream");
  return options.empty() ? Json(nullptr) : options;
}

MegatronArguments::MegatronArguments(Json arguments) {
  if (arguments.contains("nccl_yaml")) {
    folder_.emplace();
    arguments["nccl_communicator_config_path"] =
        folder_->file("nccl.yaml", arguments.at("nccl_yaml").get<std::string>());
    arguments.erase("nccl_yaml");
  }
  config_ = config_of(arguments);
}

}  // namespace tessera::golden

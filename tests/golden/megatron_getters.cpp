#include "tests/golden/megatron_getters.h"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/base/check.h"
#include "tessera/dialect/megatron/parallel_state.h"

namespace tessera::golden {
namespace {

namespace m = tessera::megatron;

// The arguments of a call; one that nobody asks for would go unchecked, so it is an error.
class Arguments {
 public:
  explicit Arguments(Json given) : given_(std::move(given)) {}

  bool flag(const char* name, bool otherwise = false) {
    const bool value = given_.value(name, otherwise);
    given_.erase(name);
    return value;
  }
  std::optional<int64_t> number(const char* name) {
    if (!given_.contains(name)) return std::nullopt;
    const int64_t value = given_.at(name);
    given_.erase(name);
    return value;
  }
  void check_all_used() const { TSR_ASSERT(given_.empty(), "unknown arguments ", given_); }

 private:
  Json given_;
};

using GroupGetter = std::function<std::optional<Group>(Arguments&)>;
using ValueGetter = std::function<Json(Arguments&)>;

// A getter with the flag check_initialized alone.
GroupGetter checked(std::optional<Group> (*getter)(bool)) {
  return [getter](Arguments& a) { return getter(a.flag("check_initialized", true)); };
}

const std::map<std::string, GroupGetter>& group_getters() {
  static const std::map<std::string, GroupGetter> kGetters{
      {"get_model_parallel_group", checked(m::get_model_parallel_group)},
      {"get_tensor_model_parallel_group", checked(m::get_tensor_model_parallel_group)},
      {"get_pipeline_model_parallel_group", checked(m::get_pipeline_model_parallel_group)},
      {"get_context_parallel_group", checked(m::get_context_parallel_group)},
      {"get_embedding_group", checked(m::get_embedding_group)},
      {"get_position_embedding_group", checked(m::get_position_embedding_group)},
      {"get_tensor_and_context_parallel_group", checked(m::get_tensor_and_context_parallel_group)},
      {"get_expert_model_parallel_group", checked(m::get_expert_model_parallel_group)},
      {"get_expert_tensor_parallel_group", checked(m::get_expert_tensor_parallel_group)},
      {"get_expert_tensor_and_model_parallel_group",
       checked(m::get_expert_tensor_and_model_parallel_group)},
      {"get_expert_tensor_model_pipeline_parallel_group",
       checked(m::get_expert_tensor_model_pipeline_parallel_group)},
      {"get_intra_distributed_optimizer_instance_group",
       checked(m::get_intra_distributed_optimizer_instance_group)},
      {"get_inter_distributed_optimizer_instance_group",
       checked(m::get_inter_distributed_optimizer_instance_group)},
      {"get_data_parallel_group",
       [](Arguments& a) {
         return m::get_data_parallel_group(a.flag("with_context_parallel"),
                                           a.flag("partial_data_parallel"),
                                           a.flag("independent_all_gather"));
       }},
      {"get_data_parallel_group_gloo",
       [](Arguments& a) {
         return m::get_data_parallel_group_gloo(a.flag("with_context_parallel"),
                                                a.flag("partial_data_parallel"));
       }},
      {"get_hybrid_data_context_parallel_groups",
       [](Arguments& a) {
         return m::get_hybrid_data_context_parallel_groups(true, a.number("group_size"));
       }},
      {"get_amax_reduction_group",
       [](Arguments& a) {
         return m::get_amax_reduction_group(a.flag("with_context_parallel"),
                                            a.flag("tp_only_amax_red"));
       }},
      {"get_tensor_and_data_parallel_group",
       [](Arguments& a) {
         return m::get_tensor_and_data_parallel_group(true, a.flag("with_context_parallel"));
       }},
      {"get_expert_data_parallel_group",
       [](Arguments& a) {
         return m::get_expert_data_parallel_group(true, a.flag("partial_expert_data_parallel"));
       }},
      {"get_data_modulo_expert_parallel_group",
       [](Arguments& a) {
         return m::get_data_modulo_expert_parallel_group(a.flag("partial_expert_data_parallel"));
       }},
      {"get_expert_data_parallel_group_gloo",
       [](Arguments& a) {
         return m::get_expert_data_parallel_group_gloo(a.flag("partial_expert_data_parallel"));
       }},
  };
  return kGetters;
}

Json to_json(const std::optional<int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class Function>
ValueGetter plain(Function getter) {
  return [getter](Arguments&) { return Json(getter()); };
}

ValueGetter optional(std::optional<int64_t> (*getter)()) {
  return [getter](Arguments&) { return to_json(getter()); };
}

ValueGetter data_parallel(int64_t (*getter)(bool, bool)) {
  return [getter](Arguments& a) {
    return Json(getter(a.flag("with_context_parallel"), a.flag("partial_data_parallel")));
  };
}

ValueGetter expert_data_parallel(int64_t (*getter)(bool)) {
  return [getter](Arguments& a) { return Json(getter(a.flag("partial_expert_data_parallel"))); };
}

ValueGetter stage(bool (*getter)(bool, std::optional<int64_t>)) {
  return [getter](Arguments& a) {
    const bool ignore_virtual = a.flag("ignore_virtual", true);
    return Json(getter(ignore_virtual, a.number("vp_stage")));
  };
}

// Getters of a size and a rank that come in pairs.
void add_sizes_and_ranks(std::map<std::string, ValueGetter>& getters) {
  getters["get_tensor_model_parallel_world_size"] = plain(m::get_tensor_model_parallel_world_size);
  getters["get_tensor_model_parallel_rank"] = plain(m::get_tensor_model_parallel_rank);
  getters["get_pipeline_model_parallel_world_size"] =
      plain(m::get_pipeline_model_parallel_world_size);
  getters["get_pipeline_model_parallel_rank"] = plain(m::get_pipeline_model_parallel_rank);
  getters["get_data_parallel_world_size"] = data_parallel(m::get_data_parallel_world_size);
  getters["get_data_parallel_rank"] = data_parallel(m::get_data_parallel_rank);
  getters["get_context_parallel_world_size"] = plain(m::get_context_parallel_world_size);
  getters["get_context_parallel_rank"] = plain(m::get_context_parallel_rank);
  getters["get_tensor_and_context_parallel_world_size"] =
      plain(m::get_tensor_and_context_parallel_world_size);
  getters["get_tensor_and_context_parallel_rank"] = plain(m::get_tensor_and_context_parallel_rank);
  getters["get_expert_model_parallel_world_size"] = plain(m::get_expert_model_parallel_world_size);
  getters["get_expert_model_parallel_rank"] = plain(m::get_expert_model_parallel_rank);
  getters["get_expert_tensor_parallel_world_size"] =
      optional(m::get_expert_tensor_parallel_world_size);
  getters["get_expert_tensor_parallel_rank"] = optional(m::get_expert_tensor_parallel_rank);
  getters["get_expert_tensor_and_model_parallel_world_size"] =
      plain(m::get_expert_tensor_and_model_parallel_world_size);
  getters["get_expert_tensor_and_model_parallel_rank"] =
      plain(m::get_expert_tensor_and_model_parallel_rank);
  getters["get_expert_data_parallel_world_size"] =
      expert_data_parallel(m::get_expert_data_parallel_world_size);
  getters["get_expert_data_parallel_rank"] = expert_data_parallel(m::get_expert_data_parallel_rank);
  getters["get_virtual_pipeline_model_parallel_world_size"] =
      optional(m::get_virtual_pipeline_model_parallel_world_size);
  getters["get_virtual_pipeline_model_parallel_rank"] =
      optional(m::get_virtual_pipeline_model_parallel_rank);
}

std::map<std::string, ValueGetter> make_value_getters() {
  std::map<std::string, ValueGetter> getters{
      {"is_initialized", plain(m::is_initialized)},
      {"is_unitialized", plain(m::is_unitialized)},
      {"model_parallel_is_initialized", plain(m::model_parallel_is_initialized)},
      {"has_separate_all_gather_group", plain(m::has_separate_all_gather_group)},
      {"get_context_parallel_global_ranks",
       [](Arguments&) { return Json(m::get_context_parallel_global_ranks()); }},
      {"get_tensor_model_parallel_src_rank", plain(m::get_tensor_model_parallel_src_rank)},
      {"get_model_parallel_src_rank", plain(m::get_model_parallel_src_rank)},
      {"get_data_parallel_src_rank",
       [](Arguments& a) {
         return Json(m::get_data_parallel_src_rank(a.flag("with_context_parallel")));
       }},
      {"get_expert_model_parallel_src_rank", plain(m::get_expert_model_parallel_src_rank)},
      {"get_pipeline_model_parallel_first_rank", plain(m::get_pipeline_model_parallel_first_rank)},
      {"get_pipeline_model_parallel_last_rank", plain(m::get_pipeline_model_parallel_last_rank)},
      {"get_pipeline_model_parallel_next_rank", plain(m::get_pipeline_model_parallel_next_rank)},
      {"get_pipeline_model_parallel_prev_rank", plain(m::get_pipeline_model_parallel_prev_rank)},
      {"is_pipeline_first_stage", stage(m::is_pipeline_first_stage)},
      {"is_pipeline_last_stage", stage(m::is_pipeline_last_stage)},
      {"is_rank_in_embedding_group", stage(m::is_rank_in_embedding_group)},
      {"is_rank_in_position_embedding_group", plain(m::is_rank_in_position_embedding_group)},
      {"get_all_ranks", plain(m::get_all_ranks)},
      {"get_global_memory_buffer",
       [](Arguments&) {
         (void)m::get_global_memory_buffer();
         return Json("a buffer");
       }},
      {"get_global_symmetric_memory_buffer",
       [](Arguments&) {
         (void)m::get_global_symmetric_memory_buffer();
         return Json("a buffer");
       }},
  };
  add_sizes_and_ranks(getters);
  return getters;
}

Json hierarchical_answer(Arguments& arguments, int64_t first) {
  const auto groups =
      m::get_hierarchical_context_parallel_groups(arguments.flag("check_initialized", true));
  if (!groups) return nullptr;
  Json indices = Json::array();
  for (const Group& group : *groups) indices.push_back(index_of(group, first));
  return indices;
}

template <class Getters>
const auto& getter_named(const Getters& getters, const std::string& name) {
  const auto at = getters.find(name);
  TSR_ASSERT(at != getters.end(), "the table asks for ", name, ", which is not known here");
  return at->second;
}

Json argument_value(const std::string& text) {
  if (text == "True") return true;
  if (text == "False") return false;
  return *to_integer(text);
}

}  // namespace

Call parse_call(const std::string& label) {
  const size_t open = label.find('(');
  Call call{label.substr(0, open)};
  const std::string arguments = label.substr(open + 1, label.size() - open - 2);
  if (arguments.empty()) return call;
  for (const std::string_view argument : split(arguments, ',')) {
    const auto sides = split(argument, '=');
    call.arguments[std::string(sides.at(0))] = argument_value(std::string(sides.at(1)));
  }
  return call;
}

Json index_of(const std::optional<Group>& group, int64_t first) {
  if (!group) return nullptr;
  const Plan& plan = m::parallel_state().plan();
  const GlobalRank rank = World::current()->rank();
  const auto planned = plan.group_of(rank, group->name());
  if (!planned || !std::ranges::equal(*planned, group->ranks())) return "wrong ranks";
  return first + *plan.creation_index(rank, group->name());
}

Json group_answer(const Call& call, int64_t first) {
  return answer_or_refusal([&] {
    Arguments arguments(call.arguments);
    Json answer = call.name == "get_hierarchical_context_parallel_groups"
                      ? hierarchical_answer(arguments, first)
                      : index_of(getter_named(group_getters(), call.name)(arguments), first);
    arguments.check_all_used();
    return answer;
  });
}

Json value_answer(const Call& call) {
  static const std::map<std::string, ValueGetter> kGetters = make_value_getters();
  return answer_or_refusal([&] {
    Arguments arguments(call.arguments);
    Json answer = getter_named(kGetters, call.name)(arguments);
    arguments.check_all_used();
    return answer;
  });
}

Json snapshot(const Json& test_case, int64_t first) {
  Json groups = Json::array();
  Json values = Json::array();
  for (const std::string label : test_case.at("group_getters")) {
    groups.push_back(group_answer(parse_call(label), first));
  }
  for (const std::string label : test_case.at("value_getters")) {
    values.push_back(value_answer(parse_call(label)));
  }
  return {{"g", groups}, {"v", values}};
}

Json answer_or_refusal(const std::function<Json()>& body) {
  try {
    return result_or_refusal(body);
  } catch (const StateError&) {
    return refusal();
  }
}

Json with_refusals(Json answer) {
  if (answer.is_string() && answer.get<std::string>().starts_with('!')) return refusal();
  if (answer.is_object() && answer.contains("error")) return refusal();
  if (answer.is_structured()) {
    for (Json& entry : answer) entry = with_refusals(entry);
  }
  return answer;
}

}  // namespace tessera::golden

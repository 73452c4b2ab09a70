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

  bool flag(const char* name, bool otherwise = false) { return take(name, otherwise); }
  bool check_initialized() { return flag("check_initialized", true); }
  std::optional<int64_t> number(const char* name) {
    const Json value = take(name, nullptr);
    return value.is_null() ? std::nullopt : std::optional<int64_t>(value);
  }
  void check_all_used() const {
    if (!given_.empty()) throw UnknownName("argument", given_.begin().key());
  }

 private:
  Json take(const char* name, const Json& otherwise) {
    Json value = value_or(given_, name, otherwise);
    given_.erase(name);
    return value;
  }

  Json given_;
};

using GroupGetter = std::function<std::optional<Group>(Arguments&)>;
using ValueGetter = std::function<Json(Arguments&)>;

// A getter with the flag check_initialized alone.
GroupGetter checked(std::optional<Group> (*getter)(bool)) {
  return [getter](Arguments& a) { return getter(a.check_initialized()); };
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
         const bool check = a.check_initialized();
         return m::get_hybrid_data_context_parallel_groups(check, a.number("group_size"));
       }},
      {"get_amax_reduction_group",
       [](Arguments& a) {
         return m::get_amax_reduction_group(a.flag("with_context_parallel"),
                                            a.flag("tp_only_amax_red"));
       }},
      {"get_tensor_and_data_parallel_group",
       [](Arguments& a) {
         const bool check = a.check_initialized();
         return m::get_tensor_and_data_parallel_group(check, a.flag("with_context_parallel"));
       }},
      {"get_expert_data_parallel_group",
       [](Arguments& a) {
         const bool check = a.check_initialized();
         return m::get_expert_data_parallel_group(check, a.flag("partial_expert_data_parallel"));
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
       [](Arguments& a) {
         const auto ranks = m::get_context_parallel_global_ranks(a.check_initialized());
         return ranks ? Json(*ranks) : Json(nullptr);
       }},
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

constexpr const char* kHierarchical = "get_hierarchical_context_parallel_groups";

Json indices_of_levels(Arguments& arguments, const IndexOf& index_of) {
  const auto groups = m::get_hierarchical_context_parallel_groups(arguments.check_initialized());
  if (!groups) return nullptr;
  Json indices = Json::array();
  for (const Group& group : *groups) indices.push_back(index_of(group));
  return indices;
}

Json ask(const Call& call, Arguments& arguments, const IndexOf& index_of) {
  static const std::map<std::string, ValueGetter> kValueGetters = make_value_getters();
  if (call.name == kHierarchical) return indices_of_levels(arguments, index_of);
  const auto of_group = group_getters().find(call.name);
  if (of_group == group_getters().end())
    return known(kValueGetters, "getter", call.name)(arguments);
  const std::optional<Group> group = of_group->second(arguments);
  return group ? index_of(*group) : Json(nullptr);
}

std::string trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(' ') + 1 - begin));
}

Json argument_value(const std::string& text) {
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "None") return nullptr;
  const std::optional<int64_t> number = to_integer(text);
  if (!number) throw UnknownName("value of an argument", text);
  return *number;
}

}  // namespace

Call parse_call(const std::string& label) {
  const size_t open = std::min(label.find('('), label.size());
  Call call{trimmed(label.substr(0, open))};
  if (open == label.size()) return call;
  const std::string inside = label.substr(open + 1, label.rfind(')') - open - 1);
  if (trimmed(inside).empty()) return call;
  for (const std::string_view argument : split(inside, ',')) {
    const auto sides = split(argument, '=');
    if (sides.size() != 2) throw UnknownName("form of call", label);
    call.arguments[trimmed(sides[0])] = argument_value(trimmed(sides[1]));
  }
  return call;
}

Json index_in_plan(const Group& group, int64_t first) {
  const Plan& plan = m::parallel_state().plan();
  const GlobalRank rank = World::current()->rank();
  const auto planned = plan.group_of(rank, group.name());
  if (!planned || !std::ranges::equal(*planned, group.ranks())) return "wrong ranks";
  return first + *plan.creation_index(rank, group.name());
}

std::optional<Group> group_of(const Call& call) {
  Arguments arguments(call.arguments);
  std::optional<Group> group = known(group_getters(), "getter of a group", call.name)(arguments);
  arguments.check_all_used();
  return group;
}

Json answer_of(const Call& call, const IndexOf& index_of) {
  return answer_or_refusal([&] {
    Arguments arguments(call.arguments);
    Json answer = ask(call, arguments, index_of);
    arguments.check_all_used();
    return answer;
  });
}

Json snapshot(const Json& test_case, const IndexOf& index_of) {
  const auto answers = [&](const char* columns) {
    Json list = Json::array();
    for (const std::string label : test_case.at(columns)) {
      list.push_back(answer_of(parse_call(label), index_of));
    }
    return list;
  };
  return {{"g", answers("group_getters")}, {"v", answers("value_getters")}};
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

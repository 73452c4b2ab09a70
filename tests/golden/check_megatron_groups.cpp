// megatron_groups: what Megatron-Core's initialize_model_parallel creates, and what its getters
// answer then. Part "plan" is what the plan alone tells: all groups in creation order, refusals,
// large worlds by hash. The getters and the life cycles need live state, and LibTorch for it.
#include <map>

#include "tessera/base/check.h"
#include "tests/golden/megatron_case.h"
#include "tests/golden/plan_json.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

// The plan of a case; `env` are variables that it was run with.
Plan plan_of(const Json& test_case) {
  const MegatronArguments arguments(test_case.at("args"));
  Plan plan = megatron_plan(test_case.at("world"), arguments.config());
  const Json variables = test_case.value("env", Json::object());
  check_variables(plan.variables(), [&](const std::string& name) {
    return variables.contains(name) ? std::optional(variables.at(name).get<std::string>())
                                    : std::nullopt;
  });
  return plan;
}

// Only what differs from the common time-out is told, as in the table.
Json groups_of(const Plan& plan, std::chrono::minutes common) {
  Json groups = Json::array();
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& ranks) {
    Json entry = to_json(spec, ranks);
    if (!spec.timeout) {
      entry["timeout_s"] = nullptr;
    } else if (*spec.timeout != common) {
      entry["timeout_s"] = std::chrono::seconds(*spec.timeout).count();
    }
    if (spec.options != NcclOptions{}) entry["opts"] = to_json(spec.options);
    if (spec.sharp) entry["collnet"] = "1";
    groups.push_back(std::move(entry));
  });
  return groups;
}

Json answer(const Json& test_case) {
  const std::chrono::minutes common(test_case.at("args").value("distributed_timeout_minutes", 30));
  return result_or_refusal([&] { return groups_of(plan_of(test_case), common); });
}

// Both halves count: as it is the input must be refused, and without the unknown names the groups
// must be the peer's.
Outcome check_unknown_names(const Json& test_case) {
  Json known = test_case;
  known["args"] = without_unknown_names(test_case.at("args"));
  return {{{"as it is", refusal()}, {"without unknown names", test_case.at("groups")}},
          {{"as it is", answer(test_case)}, {"without unknown names", answer(known)}},
          &rules::kUnknownNcclName};
}

Outcome check_config(const Json& test_case) {
  const Json& arguments = test_case.at("args");
  if (test_case.contains("error")) {
    if (!is_upper_case_order(arguments)) return {refusal(), answer(test_case)};
    Json lower = test_case;
    lower["args"]["order"] = to_lower(arguments.at("order").get<std::string>());
    const Json expected = answer(lower);
    const Rule* const rule = expected == refusal() ? nullptr : &rules::kUpperCaseOrder;
    return {expected, answer(test_case), rule};
  }
  const Rule* const rule = refusal_rule(arguments);
  if (rule == &rules::kUnknownNcclName) return check_unknown_names(test_case);
  if (rule != nullptr) return {refusal(), answer(test_case), rule};
  return {test_case.at("groups"), answer(test_case)};
}

// A list of groups as text, one part at a time.
class Text {
 public:
  void add(std::string_view part) {
    if (count_++ > 0) text_ += ';';
    text_ += part;
  }
  int64_t count() const { return count_; }
  std::string hash() const { return fnv1a64(text_); }

 private:
  std::string text_;
  int64_t count_ = 0;
};

Outcome check_large(const Json& test_case) {
  const Plan plan = plan_of(test_case);
  std::map<std::string, Text> by_name;
  Text sequence;
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& ranks) {
    const std::string list = join(ranks, ",");
    by_name[spec.name].add(list);
    sequence.add(concat(spec.name, ":", list));
  });
  Json got{{"total_groups", plan.num_groups()}, {"sequence_fnv1a64", sequence.hash()}};
  for (const auto& [name, text] : by_name) {
    got["by_name"][name] = {{"count", text.count()}, {"fnv1a64", text.hash()}};
  }
  const Json expected{{"total_groups", test_case.at("total_groups")},
                      {"sequence_fnv1a64", test_case.at("sequence_fnv1a64")},
                      {"by_name", test_case.at("by_name")}};
  return {expected, got};
}

Outcome check_plan(const Json& test_case) {
  return test_case.contains("by_name") ? check_large(test_case) : check_config(test_case);
}

}  // namespace

Table megatron_groups_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    const auto add = [&](const char* part, Json content) {
      // What the columns of a snapshot are.
      for (const char* getters : {"group_getters", "value_getters"}) {
        content[getters] = file.value(getters, Json::array());
      }
      list.push_back({part, std::move(content)});
    };
    for (const char* kind : {"configs", "large"}) {
      for (const Json& test_case : file.value(kind, Json::array())) {
        list.push_back({"plan", test_case});
        add("getters", test_case);
      }
    }
    for (const Json& test_case : file.value("lifecycle", Json::array())) {
      add("lifecycle", test_case);
    }
    return list;
  };
  return {"megatron_groups",
          {{"plan", check_plan},
           {"getters", megatron_getters_check()},
           {"lifecycle", megatron_lifecycle_check()}},
          cases};
}

}  // namespace tessera::golden

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
  const MegatronArguments arguments(arguments_of(test_case));
  Plan plan = megatron_plan(test_case.at("world"), arguments.config());
  const Json variables = value_or(test_case, "env", Json::object());
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
    const Json options = without_defaults(to_json(spec.options));
    if (!options.is_null()) entry["opts"] = options;
    if (spec.sharp) entry["collnet"] = "1";
    groups.push_back(std::move(entry));
  });
  return groups;
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

// The groups by number and hashes, as the table tells them of large worlds.
Json digest_of(const Plan& plan) {
  std::map<std::string, Text> by_name;
  Text sequence;
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& ranks) {
    const std::string list = join(ranks, ",");
    by_name[spec.name].add(list);
    sequence.add(concat(spec.name, ":", list));
  });
  Json digest{{"total_groups", plan.num_groups()}, {"sequence_fnv1a64", sequence.hash()}};
  for (const auto& [name, text] : by_name) {
    digest["by_name"][name] = {{"count", text.count()}, {"fnv1a64", text.hash()}};
  }
  return digest;
}

bool is_large(const Json& test_case) {
  return test_case.contains("total_groups");
}

int64_t common_minutes(const Json& test_case) {
  return value_or(test_case.at("args"), "distributed_timeout_minutes", 30);
}

Json answer(const Json& test_case) {
  const std::chrono::minutes common(common_minutes(test_case));
  return result_or_refusal([&] {
    const Plan plan = plan_of(test_case);
    return is_large(test_case) ? digest_of(plan) : groups_of(plan, common);
  });
}

// What the peer made, in the form of answer().
Json peers_answer(const Json& test_case) {
  Json expected;
  if (is_large(test_case)) {
    for (const char* field : {"total_groups", "sequence_fnv1a64", "by_name"}) {
      expected[field] = test_case.at(field);
    }
    return expected;
  }
  expected = test_case.at("groups");
  const Json common = 60 * common_minutes(test_case);
  for (Json& group : expected) {
    if (value_or(group, "timeout_s", nullptr) == common) group.erase("timeout_s");
    for (const char* field : {"backend", "collnet"}) {
      if (value_or(group, field, nullptr).is_null()) group.erase(field);
    }
    const Json options = without_defaults(value_or(group, "opts", nullptr));
    group.erase("opts");
    if (!options.is_null()) group["opts"] = options;
  }
  return expected;
}

// Both halves count: as it is the input must be refused, and without the unknown names the groups
// must be the peer's.
Outcome check_unknown_names(const Json& test_case) {
  Json known = test_case;
  known["args"] = without_unknown_names(arguments_of(test_case));
  return {{{"as it is", refusal()}, {"without unknown names", peers_answer(test_case)}},
          {{"as it is", answer(test_case)}, {"without unknown names", answer(known)}},
          &rules::kUnknownNcclName};
}

// The peer refuses; ours does, too, unless only the case of the order's letters was wrong.
Outcome check_error(const Json& test_case) {
  const auto order = lower_case_order(arguments_of(test_case));
  if (!order) return {refusal(), answer(test_case)};
  Json lower = test_case;
  lower["args"]["order"] = *order;
  const Json expected = answer(lower);
  const Rule* const rule = expected == refusal() ? nullptr : &rules::kUpperCaseOrder;
  return {expected, answer(test_case), rule};
}

Outcome check_plan(const Json& test_case) {
  if (test_case.contains("error")) return check_error(test_case);
  const Rule* const rule = refusal_rule(arguments_of(test_case));
  if (rule == &rules::kUnknownNcclName) return check_unknown_names(test_case);
  if (rule != nullptr) return {refusal(), answer(test_case), rule};
  return {peers_answer(test_case), answer(test_case)};
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

// megatron_groups, part "lifecycle": calls one after the other, on a rank that is acted.
#include <algorithm>

#include "tests/golden/megatron_case.h"
#include "tests/golden/megatron_getters.h"
#include "tests/golden/megatron_life.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

Json expected_creation(const Json& result) {
  const Json& record = result.at("record");
  Json expected{{"member", result.at("index").is_number()},
                {"ranks", record.value("sorted_ranks", record.at("ranks"))},
                {"list_len", result.at("list_len")}};
  for (const char* field : {"name", "timeout_s"}) {
    if (record.contains(field) && !record.at(field).is_null()) expected[field] = record.at(field);
  }
  return expected;
}

Json expected_timeouts(const Json& events) {
  Json groups = Json::array();
  for (const Json& event : events) {
    if (event.at("op") == "set_pg_timeout") groups.push_back(event.at("group"));
  }
  return groups;
}

// The rest is part "plan"'s.
Json expected_groups(const Json& groups) {
  Json expected = Json::array();
  for (const Json& group : groups) {
    expected.push_back({{"name", group.at("name")}, {"ranks", group.at("ranks")}});
  }
  return expected;
}

// In the peer's file an option is left out where it has its default.
Json expected_sections(Json sections) {
  for (Json& section : sections) {
    if (!section.contains("is_high_priority_stream")) section["is_high_priority_stream"] = false;
  }
  return sections;
}

Json expected_answer(const Json& step) {
  const std::string kind = step.at("op").at(0);
  const Json answer = with_refusals(step.at("result"));
  if (answer == refusal()) return answer;
  if (kind == "create_group") return expected_creation(answer);
  if (kind == "update_pg_timeout") return expected_timeouts(answer);
  if (kind == "groups") return expected_groups(answer);
  if (kind == "overwrite") return expected_sections(answer);
  return answer;
}

bool is_init(const Json& op) {
  return op.at(0) == "init";
}
bool is_destroy(const Json& op) {
  return op == Json{"call", "destroy_model_parallel"};
}

// For each step, how many groups the peer had created before those that exist then.
std::vector<int64_t> first_groups(const Json& steps) {
  std::vector<int64_t> firsts;
  int64_t first = 0;
  int64_t total = 0;
  for (const Json& step : steps) {
    if (is_init(step.at("op")) && step.at("result").contains("new_groups")) {
      first = total;
      total += step.at("result").at("new_groups").get<int64_t>();
    }
    firsts.push_back(first);
  }
  return firsts;
}

struct Script {
  const Json& test_case;
  const Json& steps;
  std::vector<int64_t> firsts;

  Json play() const {
    Life life(test_case);
    Json answers = Json::array();
    for (size_t i = 0; i < steps.size(); ++i) {
      answers.push_back(life.answer(steps[i].at("op"), firsts[i]));
    }
    return answers;
  }

  // The answer of step `end` in a process that did neither what was destroyed nor what was refused.
  Json play_afresh(size_t end, const Json& answers) const {
    Life life(test_case);
    size_t begin = end;
    while (begin > 0 && !is_destroy(steps[begin - 1].at("op"))) --begin;
    Json answer;
    for (size_t i = 0; i <= end; ++i) {
      const Json& op = steps[i].at("op");
      const bool refused = is_init(op) && answers[i] == refusal();
      if (op.at(0) == "init_dist" || (i >= begin && !refused)) answer = life.answer(op, firsts[i]);
    }
    return answer;
  }

  // Whether something was destroyed or refused before this step.
  bool may_be_left_over(size_t step) const {
    return std::any_of(steps.begin(), steps.begin() + static_cast<int64_t>(step),
                       [](const Json& one) {
                         const bool refused = with_refusals(one.at("result")) == refusal();
                         return is_destroy(one.at("op")) || (is_init(one.at("op")) && refused);
                       });
  }
};

// Unknown names in NCCL options: as they stand they must be refused, and without them the answer
// must be the peer's.
bool has_unknown_names(const Json& op) {
  return op.at(0) == "nccl_options" &&
         refusal_rule({{"nccl_yaml", op.at(2).dump(1)}}) == &rules::kUnknownNcclName;
}

Json answer_without_unknown_names(const Json& op) {
  const Json known = without_unknown_names({{"nccl_yaml", op.at(2).dump(1)}});
  return nccl_options_answer(op.at(1), known.at("nccl_yaml"));
}

Outcome check_lifecycle(const Json& test_case) {
  const Json& steps = test_case.at("steps");
  const Script script{test_case, steps, first_groups(steps)};
  Outcome outcome{Json::array(), script.play()};
  for (size_t i = 0; i < steps.size(); ++i) {
    Json expected = expected_answer(steps[i]);
    Json& got = outcome.got[i];
    if (has_unknown_names(steps[i].at("op")) && got == refusal()) {
      got = answer_without_unknown_names(steps[i].at("op"));
      outcome.rule = &rules::kUnknownNcclName;
    } else if (expected != got && script.may_be_left_over(i)) {
      expected = script.play_afresh(i, outcome.got);
      outcome.rule = &rules::kAnswersOfThePast;
    }
    outcome.expected.push_back(expected);
  }
  return outcome;
}

}  // namespace

Check megatron_lifecycle_check() {
  return check_lifecycle;
}

}  // namespace tessera::golden

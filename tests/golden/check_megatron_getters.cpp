// megatron_groups, part "getters": what every getter answers on every listed rank, each acted in a
// world of its own, and what is left after a refusal. "events", what SHARP does on CUDA, is not
// compared.
#include "tessera/base/text.h"
#include "tessera/comm/world.h"
#include "tessera/dialect/megatron/parallel_state.h"
#include "tests/golden/megatron_case.h"
#include "tests/golden/megatron_getters.h"
#include "tests/golden/rules.h"
#include "tests/golden/surroundings.h"

namespace tessera::golden {
namespace {

// Runs `body` as a rank that has initialised, or tried to.
Json as_rank(const Json& test_case, int64_t rank, const std::function<Json()>& body) {
  const MegatronArguments arguments(arguments_of(test_case));
  const Surroundings surroundings(value_or(test_case, "env", Json::object()));
  World::make_current(World::fake(GlobalRank{rank}, test_case.at("world")));
  const Json refused = answer_or_refusal([&]() -> Json {
    megatron::initialize_model_parallel(arguments.config());
    return "initialised";
  });
  Json answer = body();
  answer["initialize_model_parallel"] = refused;
  return answer;
}

// The variables that the table speaks of are those that are set after the call.
Json with_variables(Json snapshot) {
  snapshot["env_after"] = all_variables();
  return snapshot;
}

Json snapshots(const Json& test_case) {
  Json all = Json::object();
  const auto index_of = [](const Group& group) { return index_in_plan(group, 0); };
  for (const auto& [rank, expected] : test_case.at("ranks").items()) {
    all[rank] = as_rank(test_case, std::stoll(rank),
                        [&] { return with_variables(snapshot(test_case, index_of)); });
  }
  return all;
}

Json expected_snapshots(const Json& test_case) {
  Json all = Json::object();
  for (const auto& [rank, expected] : test_case.at("ranks").items()) {
    all[rank] = {{"g", with_refusals(expected.at("g"))},
                 {"v", with_refusals(expected.at("v"))},
                 {"env_after", value_or(expected, "env_after", Json::object())},
                 {"initialize_model_parallel", "initialised"}};
  }
  return all;
}

Json state_now() {
  const auto chunks = megatron::get_virtual_pipeline_model_parallel_world_size();
  return {{"is_initialized", megatron::is_initialized()},
          {"model_parallel_is_initialized", megatron::model_parallel_is_initialized()},
          {"virtual_pipeline_world_size", chunks ? Json(*chunks) : Json(nullptr)}};
}

Json untouched_state() {
  return {{"is_initialized", false},
          {"model_parallel_is_initialized", false},
          {"virtual_pipeline_world_size", nullptr}};
}

// What the peer left after it refused: on every rank the same, or told rank by rank.
Json state_left(const Json& test_case) {
  const Json by_rank = value_or(test_case, "state_after_error_by_rank", Json::object());
  return by_rank.empty() ? value_or(test_case, "state_after_error", untouched_state())
                         : by_rank.begin().value();
}

// A refusal leaves nothing, and no variable is changed.
Outcome check_refused(const Json& test_case, const Rule* rule) {
  Json expected = untouched_state();
  if (rule == nullptr && state_left(test_case) != expected) rule = &rules::kAnswersOfThePast;
  expected["env_after"] = value_or(test_case, "env", Json::object());
  expected["initialize_model_parallel"] = refusal();
  const Json got = as_rank(test_case, 0, [&] { return with_variables(state_now()); });
  return {expected, got, rule};
}

Outcome check_unknown_names(const Json& test_case) {
  Json known = test_case;
  known["args"] = without_unknown_names(arguments_of(test_case));
  const Outcome refused = check_refused(test_case, nullptr);
  return {{refused.expected, expected_snapshots(test_case)},
          {refused.got, snapshots(known)},
          &rules::kUnknownNcclName};
}

// The peer refuses it, so it has no answers; those of the lower-case order are checked elsewhere.
Outcome check_upper_case(const Json& test_case) {
  Json expected = untouched_state();
  expected["is_initialized"] = expected["model_parallel_is_initialized"] = true;
  expected["virtual_pipeline_world_size"] =
      value_or(test_case.at("args"), "virtual_pipeline_model_parallel_size", nullptr);
  expected["initialize_model_parallel"] = "initialised";
  return {expected, as_rank(test_case, 0, state_now), &rules::kUpperCaseOrder};
}

bool takes_upper_case(const Json& test_case) {
  const auto order = lower_case_order(arguments_of(test_case));
  if (!order) return false;
  Json lower = test_case;
  lower["args"]["order"] = *order;
  return as_rank(lower, 0, state_now).at("is_initialized");
}

Outcome check_getters(const Json& test_case) {
  if (test_case.contains("error")) {
    return takes_upper_case(test_case) ? check_upper_case(test_case)
                                       : check_refused(test_case, nullptr);
  }
  const Rule* const rule = refusal_rule(arguments_of(test_case));
  if (rule == &rules::kUnknownNcclName) return check_unknown_names(test_case);
  if (rule != nullptr) return check_refused(test_case, rule);
  return {expected_snapshots(test_case), snapshots(test_case)};
}

}  // namespace

Check megatron_getters_check() {
  return check_getters;
}

}  // namespace tessera::golden

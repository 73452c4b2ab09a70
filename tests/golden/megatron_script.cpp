#include "tests/golden/megatron_script.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/golden/megatron_case.h"
#include "tests/golden/megatron_variables.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

// ---- The peer's answers in the form of ours

Json creation(const Json& result) {
  const Json& record = result.at("record");
  Json expected{{"index", result.at("index")},
                {"ranks", value_or(record, "sorted_ranks", record.at("ranks"))},
                {"list_len", result.at("list_len")}};
  for (const char* field : {"name", "timeout_s"}) {
    if (!value_or(record, field, nullptr).is_null()) expected[field] = record.at(field);
  }
  return expected;
}

Json groups_with_new_timeout(const Json& events) {
  Json groups = Json::array();
  for (const Json& event : events) {
    if (event.at("op") == "set_pg_timeout") groups.push_back(event.at("group"));
  }
  return groups;
}

// The rest is part "plan"'s.
Json names_and_ranks(const Json& groups) {
  Json expected = Json::array();
  for (const Json& group : groups) {
    expected.push_back({{"name", group.at("name")}, {"ranks", group.at("ranks")}});
  }
  return expected;
}

Json sections_without_defaults(Json sections) {
  for (Json& section : sections) section = without_defaults(section);
  return sections;
}

// The table cannot hold a buffer itself.
bool asks_for_buffer(const Json& op) {
  return op.at(0) == "value" && parse_call(op.at(1)).name.ends_with("_memory_buffer");
}

Json peers_answer(const Json& op, const Json& result) {
  const std::string kind = op.at(0);
  Json answer = with_refusals(result);
  if (answer == refusal()) return answer;
  if (asks_for_buffer(op)) return "a buffer";
  if (kind == "create_group") return creation(answer);
  if (kind == "update_pg_timeout") return groups_with_new_timeout(answer);
  if (kind == "groups") return names_and_ranks(answer);
  if (kind == "nccl_options") return without_defaults(answer);
  if (kind == "overwrite") return sections_without_defaults(answer);
  return answer;
}

Json our_answer(const Json& op, Json answer) {
  if (op.at(0) == "nccl_options") return without_defaults(answer);
  if (op.at(0) == "overwrite") return sections_without_defaults(answer);
  return answer;
}

// ---- Inputs that ours refuses

const Rule* overwrite_rule(const Json& op) {
  const Rule* const before = nccl_rule(op.at(1).dump(1));
  const Json option{{op.at(3).at(0), op.at(3).at(1)}};
  const Rule* const added = nccl_rule(Json{{op.at(2), option}}.dump(1));
  if (before == &rules::kBadNcclValue || added == &rules::kBadNcclValue) {
    return &rules::kBadNcclValue;
  }
  return before != nullptr ? before : added;
}

const Rule* create_rule(const Json& arguments) {
  const std::string backend = value_or(arguments, "backend", "gloo");
  return backend == "gloo" || backend == "nccl" ? nullptr : &rules::kOtherBackEnd;
}

const Rule* call_rule(const Json& op) {
  const bool negative = op.size() > 2 && op[2].is_number() && op[2] < 0;
  return negative ? &rules::kNegativeOverride : nullptr;
}

// Why ours refuses a step that the peer takes; null where it takes it, too.
const Rule* rule_of(const Json& op) {
  const std::string kind = op.at(0);
  if (kind == "init") return refusal_rule(arguments_of({{"args", op.at(1)}}));
  if (kind == "nccl_options") return nccl_rule(op.at(2).dump(1));
  if (kind == "overwrite") return overwrite_rule(op);
  if (kind == "create_group") return create_rule(op.at(1));
  if (kind == "call") return call_rule(op);
  return nullptr;
}

// The same step without names that Megatron does not know; null where nothing of it is left.
Json without_unknown(Json op) {
  const std::string kind = op.at(0);
  if (kind == "init") op[1] = without_unknown_names(arguments_of({{"args", op[1]}}));
  if (kind == "nccl_options") op[2] = known_nccl_options(op[2]);
  if (kind != "overwrite") return op;
  op[1] = known_nccl_options(op[1]);
  return is_nccl_section(op[2]) && is_nccl_key(op[3].at(0)) ? op : Json();
}

// As it stands the step must be refused; without the unknown names the answer must be the peer's.
void perform_without_unknown(Life& life, Step& step) {
  step.rule = &rules::kUnknownNcclName;
  step.got = life.answer(step.op);
  if (!step.refused()) return;
  if (step.op.at(0) == "overwrite") {
    step.expected = sections_without_defaults(known_nccl_options(step.expected));
  }
  if (step.op.at(0) == "nccl_options" && !is_nccl_section(step.op.at(1))) step.expected = nullptr;
  const Json known = without_unknown(step.op);
  // With nothing left to overwrite there is no second answer to compare.
  step.got = known.is_null() ? step.expected : our_answer(known, life.answer(known));
}

void perform(Life& life, Step& step) {
  const Rule* const rule = step.peer_refused() ? nullptr : rule_of(step.op);
  if (rule == &rules::kUnknownNcclName) return perform_without_unknown(life, step);
  step.got = our_answer(step.op, life.answer(step.op));
  if (rule != nullptr) {
    step.expected = refusal();
    step.rule = rule;
  }
  if (step.op.at(0) == "globals_not_none") {
    step.expected = expected_variables(step.expected, step.got);
  }
  const bool only_ours = step.is_init() && step.peer_refused() && !step.refused();
  if (only_ours && lower_case_order(step.op.at(1))) {
    step.expected = step.got;  // Part "plan" compares the groups.
    step.rule = &rules::kUpperCaseOrder;
  }
}

// The step again, for what it does and not for what it answers.
void repeat(Life& life, const Step& step) {
  const bool known_alone = step.rule == &rules::kUnknownNcclName;
  const Json op = known_alone ? without_unknown(step.op) : step.op;
  if (!op.is_null()) life.answer(op);
}

// Whether the two sides are in different states from here on.
bool ends_comparison(const Step& step) {
  static const std::set<std::string> kStateless{"nccl_options", "overwrite"};
  return step.rule != nullptr && step.rule != &rules::kUnknownNcclName &&
         !kStateless.contains(step.op.at(0));
}

// ---- Groups that the peer made before it failed

// By how much the peer's index of each group is above ours, where both have one.
void add_differences(const Json& expected, const Json& got, std::map<int64_t, int64_t>& counts) {
  if (expected.is_number_integer() && got.is_number_integer()) {
    ++counts[expected.get<int64_t>() - got.get<int64_t>()];
  }
  if (!expected.is_array() || !got.is_array() || expected.size() != got.size()) return;
  for (size_t i = 0; i < got.size(); ++i) add_differences(expected[i], got[i], counts);
}

// The groups in a step's two answers, as indices.
std::pair<Json, Json> indices_of(const Step& step) {
  const std::string kind = step.op.at(0);
  if (step.peer_refused() || step.refused()) return {};
  if (kind == "group" || kind == "update_pg_timeout") return {step.expected, step.got};
  if (kind == "snapshot" || kind == "snapshot_msg") {
    return {step.expected.at("g"), step.got.at("g")};
  }
  if (kind == "create_group") return {step.expected.at("index"), step.got.at("index")};
  return {};
}

int64_t likeliest_difference(const Step& step) {
  std::map<int64_t, int64_t> counts;
  const auto [expected, got] = indices_of(step);
  add_differences(expected, got, counts);
  int64_t likeliest = 0;
  for (const auto& [difference, count] : counts) {
    if (count > counts[likeliest]) likeliest = difference;
  }
  return likeliest;
}

}  // namespace

Script::Script(const Json& test_case)
    : test_case_(test_case), missing_(test_case.at("steps").size()) {
  do play();
  while (count_missing_groups());
}

void Script::play() {
  steps_.clear();
  Life life(test_case_);
  for (const Json& given : test_case_.at("steps")) {
    Step step{given.at("op"), peers_answer(given.at("op"), given.at("result")), {}};
    const int64_t before = life.num_groups();
    perform(life, step);
    if (step.is_init() && step.peer_refused()) {  // Ours may have made groups; the peer's count.
      life.count_groups(before + missing_[steps_.size()] - life.num_groups());
    }
    step.num_made = life.num_groups() - before;
    steps_.push_back(std::move(step));
    if (ends_comparison(steps_.back())) return;
  }
}

// The table does not say how many groups there were when an initialisation failed; the next indices
// do. Whether a number was found.
bool Script::count_missing_groups() {
  std::optional<size_t> failed;     // The last initialisation that did.
  std::optional<size_t> uncounted;  // The same, if groups were made since then.
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.is_init() && step.peer_refused()) failed = i;
    if (step.num_made > 0 && !(step.is_init() && step.peer_refused())) uncounted = failed;
    const int64_t difference = likeliest_difference(step);
    if (!uncounted || missing_[*uncounted] > 0 || difference <= 0) continue;
    missing_[*uncounted] = difference;
    return true;
  }
  return false;
}

Json Script::ask_before(size_t end, const std::vector<size_t>& done, const Json& op) const {
  Life life(test_case_);
  for (size_t i = 0; i < end; ++i) {
    const int64_t before = life.num_groups();
    if (std::ranges::find(done, i) != done.end()) repeat(life, steps_[i]);
    life.count_groups(steps_[i].num_made - (life.num_groups() - before));
  }
  return our_answer(op, life.answer(op));
}

}  // namespace tessera::golden

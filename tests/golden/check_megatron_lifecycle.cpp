// megatron_groups, part "lifecycle": calls one after the other, on a rank that is acted. After
// destroy, or after an initialisation that failed, the peer still answers with some of what was
// before; ours answers as a process that never had it.
#include <algorithm>
#include <numeric>
#include <set>

#include "tests/golden/dtypes.h"
#include "tests/golden/megatron_script.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

// ---- What the peer leaves

// Getters that read lists of ranks, which destroy_model_parallel does not reset and every
// initialisation replaces.
bool reads_rank_list(const std::string& name) {
  static const std::set<std::string> kGetters{"get_data_parallel_src_rank",
                                              "get_expert_model_parallel_src_rank",
                                              "get_model_parallel_src_rank",
                                              "get_pipeline_model_parallel_first_rank",
                                              "get_pipeline_model_parallel_last_rank",
                                              "get_pipeline_model_parallel_next_rank",
                                              "get_pipeline_model_parallel_prev_rank",
                                              "get_tensor_model_parallel_src_rank"};
  return kGetters.contains(name);
}

// Those whose answer depends on overrides, too, so that it need not be one of before.
bool is_mixed(const std::string& name) {
  static const std::set<std::string> kGetters{"get_pipeline_model_parallel_last_rank",
                                              "get_pipeline_model_parallel_next_rank",
                                              "get_pipeline_model_parallel_prev_rank"};
  return kGetters.contains(name);
}

// Getters that read what neither destroy_model_parallel nor every initialisation resets.
bool outlives_initialisation(const Call& call) {
  static const std::set<std::string> kAlways{"get_data_parallel_rank",
                                             "get_hierarchical_context_parallel_groups",
                                             "get_hybrid_data_context_parallel_groups"};
  static const std::set<std::string> kOfOneInstance{
      "get_data_parallel_group", "get_data_parallel_group_gloo", "get_data_parallel_world_size"};
  const bool of_one_instance = value_or(call.arguments, "with_context_parallel", false) &&
                               value_or(call.arguments, "partial_data_parallel", false);
  return kAlways.contains(call.name) || (of_one_instance && kOfOneInstance.contains(call.name));
}

// Getters that know the number of virtual stages, which stays set where an initialisation fails.
bool sees_virtual_stages(const std::string& name) {
  static const std::set<std::string> kGetters{
      "get_virtual_pipeline_model_parallel_world_size", "get_virtual_pipeline_model_parallel_rank",
      "is_pipeline_first_stage", "is_pipeline_last_stage", "is_rank_in_embedding_group"};
  return kGetters.contains(name);
}

bool variable_outlives_destroy(const std::string& name) {
  static const std::set<std::string> kVariables{"_DATA_PARALLEL_GLOBAL_RANKS",
                                                "_DATA_PARALLEL_GLOBAL_RANKS_WITH_CP",
                                                "_EMBEDDING_GLOBAL_RANKS",
                                                "_EXPERT_MODEL_PARALLEL_RANKS",
                                                "_HIERARCHICAL_CONTEXT_PARALLEL_GROUPS",
                                                "_INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
                                                "_INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO",
                                                "_MODEL_PARALLEL_GLOBAL_RANKS",
                                                "_MPU_DATA_PARALLEL_RANK",
                                                "_MPU_DATA_PARALLEL_WORLD_SIZE",
                                                "_PIPELINE_GLOBAL_RANKS",
                                                "_TENSOR_MODEL_PARALLEL_GLOBAL_RANKS"};
  return kVariables.contains(name);
}

// Buffers of one element that the peer keeps where it then could not view them as no dimensions.
class Buffers {
 public:
  void add(const Step& step) {
    const bool destroyed = step.op == Json{"call", "destroy_global_memory_buffer"};
    if (destroyed || step.is_destroy()) *this = {};
    if (step.op.at(0) != "buffer") return;
    if (!step.peer_refused()) {
      made_.insert(key_of(step));
    } else if (step.op.at(1).empty() && !made_.contains(key_of(step))) {
      failed_.insert(key_of(step));
    }
  }
  bool any_failed() const { return !failed_.empty(); }

  /// The peer's answer to a request for a buffer, as if those had not been kept.
  Json without_failed(const Step& step) const {
    Json answer = step.expected;
    if (!answer.is_object() || step.refused()) return answer;
    const std::string key = key_of(step);
    const auto is_kept = [&](const std::string& one) { return one != key && !made_.contains(one); };
    answer["num_buffers"] =
        answer["num_buffers"].get<int64_t>() - std::ranges::count_if(failed_, is_kept);
    if (failed_.contains(key) && !made_.contains(key) && answer["buffer_numel"] == 1) {
      for (const char* field : {"reallocated", "buffer_numel"}) answer[field] = step.got.at(field);
    }
    return answer;
  }

 private:
  static std::string key_of(const Step& step) {
    return name_of(dtype_named(step.op.at(2))) + " " + step.op.at(3).get<std::string>();
  }

  std::set<std::string> made_;
  std::set<std::string> failed_;
};

// ---- What a step may find left over

class LeftOver {
 public:
  LeftOver(const Script& script, size_t step) : script_(script), step_(step) {
    for (size_t i = 0; i < step; ++i) {
      const Step& before = script.steps()[i];
      const bool failed = before.is_init() && before.peer_refused();
      if (before.is_destroy()) {
        ends_.push_back(i);
        half_made_ = initialised_since_ = has_virtual_stages_ = false;
        group_failed_ = false;
      }
      if (before.op.at(0) == "create_group" && before.peer_refused()) group_failed_ = true;
      buffers_.add(before);
      // What exists already is refused before anything is made.
      if (failed && !initialised_since_) any_failed_ = half_made_ = true;
      if (failed) has_virtual_stages_ |= sets_virtual_stages(before.op.at(1));
      if (before.op.at(0) == "call" && before.op.at(1) == "set_data_parallel_rank") {
        has_data_parallel_rank_ = true;
      }
      if (before.is_init() && !failed) initialised_since_ = true;
    }
  }

  bool is_possible() const {
    return any_failed_ || group_failed_ || buffers_.any_failed() || !ends_.empty();
  }
  const Buffers& buffers() const { return buffers_; }
  /// The peer began its list of groups for one that could not be made.
  bool has_empty_list() const { return group_failed_; }
  /// The peer is in the middle of an initialisation that failed: it may answer anything.
  bool is_half_made() const { return half_made_ && !initialised_since_; }

  /// What a process answers that did neither what was destroyed nor what was refused.
  Json afresh() const {
    const size_t begin = ends_.empty() ? 0 : ends_.back() + 1;
    std::vector<size_t> done;
    for (size_t i = 0; i < step_; ++i) {
      const Step& before = script_.steps()[i];
      const bool skipped = i < begin || (before.is_init() && before.refused());
      if (before.op.at(0) == "init_dist" || !skipped) done.push_back(i);
    }
    return script_.ask_before(step_, done, script_.steps()[step_].op);
  }

  /// Whether the peer's answer to one getter is what it had before, where ours is `got`.
  bool explains(const Call& call, const Json& answer, const Json& got) const {
    if (has_virtual_stages_ && sees_virtual_stages(call.name)) return true;
    if (ends_.empty()) return false;
    if (call.name == "get_all_ranks") return has_data_parallel_rank_;  // Which is part of it.
    if (call.name == "is_rank_in_embedding_group") {
      return got == false && (any_failed_ || was({call.name}, true));
    }
    const bool rank_list = reads_rank_list(call.name) && !initialised_since_;
    if (!rank_list && !outlives_initialisation(call)) return false;
    return any_failed_ || is_mixed(call.name) || was(call, answer);
  }

 private:
  static bool sets_virtual_stages(const Json& arguments) {
    return !value_or(arguments, "virtual_pipeline_model_parallel_size", nullptr).is_null();
  }

  /// Whether ours gave this answer before something was destroyed.
  bool was(const Call& call, const Json& answer) const {
    const Json op{"value", call.name, call.arguments};
    return std::ranges::any_of(ends_, [&](size_t end) {
      std::vector<size_t> done(end);
      std::iota(done.begin(), done.end(), 0);
      return script_.ask_before(end, done, op) == answer;
    });
  }

  const Script& script_;
  size_t step_;
  std::vector<size_t> ends_;  // Where things were destroyed.
  bool any_failed_ = false;
  bool group_failed_ = false;
  Buffers buffers_;
  bool half_made_ = false;
  bool has_virtual_stages_ = false;
  bool has_data_parallel_rank_ = false;
  bool initialised_since_ = false;
};

// ---- Steps with something left over

bool explains_columns(const LeftOver& left, const Json& labels, const Json& expected,
                      const Json& got) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (expected.at(i) == got.at(i)) continue;
    if (!left.explains(parse_call(labels[i]), expected[i], got[i])) return false;
  }
  return true;
}

bool explains_variables(const LeftOver& left, const Json& expected, const Json& got) {
  std::set<std::string> differing;
  std::ranges::set_symmetric_difference(expected.at("hold").get<std::set<std::string>>(),
                                        got.at("hold").get<std::set<std::string>>(),
                                        std::inserter(differing, differing.end()));
  if (left.has_empty_list()) differing.erase("_global_process_group_list");
  return std::ranges::all_of(differing, variable_outlives_destroy);
}

Call call_of(const Json& op) {
  Call call = parse_call(op.at(1));
  if (op.size() > 2 && op[2].is_object()) call.arguments.update(op[2]);
  return call;
}

bool explains(const Json& test_case, const LeftOver& left, const Step& step) {
  const std::string kind = step.op.at(0);
  if (left.is_half_made()) return true;
  if (kind == "value" || kind == "group") {
    return left.explains(call_of(step.op), step.expected, step.got);
  }
  if (kind == "globals_not_none") return explains_variables(left, step.expected, step.got);
  if (kind == "buffer") return left.buffers().without_failed(step) == step.got;
  // With an empty list the world alone gets the time-out.
  if (kind == "update_pg_timeout") return left.has_empty_list() && step.expected == Json{nullptr};
  if (kind != "snapshot" && kind != "snapshot_msg") return false;
  return explains_columns(left, test_case.at("group_getters"), step.expected.at("g"),
                          step.got.at("g")) &&
         explains_columns(left, test_case.at("value_getters"), step.expected.at("v"),
                          step.got.at("v"));
}

// Groups that were made before an initialisation failed stay in the peer's list of all.
bool is_part_of(const Json& groups, const Json& list) {
  auto next = groups.begin();
  for (const Json& group : list) {
    if (next != groups.end() && *next == group) ++next;
  }
  return next == groups.end();
}

// The answer that ours must give, where the peer's is one of the past.
Json expected_afresh(const Json& test_case, const Script& script, size_t i) {
  const Step& step = script.steps()[i];
  const LeftOver left(script, i);
  if (!left.is_possible()) return step.expected;
  if (step.op.at(0) == "groups") {
    return is_part_of(step.got, step.expected) ? step.got : step.expected;
  }
  return explains(test_case, left, step) ? left.afresh() : step.expected;
}

Outcome check_lifecycle(const Json& test_case) {
  const Script script(test_case);
  Outcome outcome{Json::array(), Json::array()};
  for (size_t i = 0; i < script.steps().size(); ++i) {
    const Step& step = script.steps()[i];
    const bool equal = step.expected == step.got;
    const Json expected = equal ? step.expected : expected_afresh(test_case, script, i);
    if (step.rule != nullptr) outcome.rule = step.rule;
    if (expected != step.expected) outcome.rule = &rules::kAnswersOfThePast;
    outcome.expected.push_back(expected);
    outcome.got.push_back(step.got);
  }
  return outcome;
}

}  // namespace

Check megatron_lifecycle_check() {
  return check_lifecycle;
}

}  // namespace tessera::golden

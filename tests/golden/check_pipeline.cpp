// pipeline: the tables of torch.distributed.pipelining, its parser, validation, placement and
// splits.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "tessera/base/check.h"
#include "tessera/schedule/csv.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tessera/schedule/simulate.h"
#include "tessera/schedule/verify.h"
#include "tests/golden/golden.h"
#include "tests/golden/peer_steps.h"
#include "tests/golden/rules.h"
#include "tests/golden/schedule_json.h"

namespace tessera::golden {
namespace {

// Fields that state the question, not the answer.
constexpr std::array<std::string_view, 5> kQuestion{"id", "schedule", "pp", "stages_per_rank",
                                                    "microbatches"};

Json expected_table(const Json& test_case) {
  if (test_case.contains("error")) return refusal();
  Json expected = test_case;
  for (const std::string_view field : kQuestion) expected.erase(std::string(field));
  if (expected.value("published_ir_differs", false)) expected.erase("published_ir");
  expected.erase("published_ir_differs");
  for (const char* field : {"lowered", "lowered_deferred_recv"}) {
    if (expected.contains(field)) expected[field] = with_sorted_reshards(expected[field]);
  }
  return expected;
}

Json derived(const Schedule& schedule) {
  const Simulation simulation = simulate(schedule, {});
  Json busy = Json::array();
  Json gaps = Json::array();
  Json peaks = Json::array();
  for (const RankTimes& rank : simulation.ranks) {
    busy.push_back(std::llround(rank.busy));
    gaps.push_back(std::llround(rank.gap));
    peaks.push_back(rank.peak_activations);
  }
  constexpr double kShown = 1e6;  // The table has six decimals.
  return {{"makespan", std::llround(simulation.makespan)},
          {"busy", busy},
          {"gaps", gaps},
          {"idle_fraction", std::round(simulation.bubble_fraction() * kShown) / kShown},
          {"peak_live_microbatches", peaks}};
}

// The peer's tables of single-stage kinds end with the reduction of gradients.
Json published(const Schedule& schedule) {
  const bool single = is_single_stage(parse_schedule_kind(schedule.name()));
  return to_json(single ? with_reduce_grad(schedule) : schedule, nullptr);
}

Json executed(const Schedule& schedule) {
  const bool fused = parse_schedule_kind(schedule.name()) == ScheduleKind::k1F1B;
  const Schedule lowered = lower_in_step(schedule, fused);
  verify(lowered);
  return to_json(lowered, nullptr);
}

Json lowered(const Schedule& schedule, Receives receives) {
  const Schedule table = lower(schedule, {.receives = receives});
  verify(table);
  return with_sorted_reshards(to_json(table, nullptr));
}

// A table that is written must be read as the same.
Json csv(const Schedule& schedule, CsvFormat format) {
  const std::string text = to_csv(schedule, format);
  const CsvOptions options{.format = format, .shape = schedule.shape(), .sends = schedule.sends()};
  const Schedule again = parse_schedule_csv(text, schedule.name(), options);
  return again == schedule ? Json(text) : Json("reads as another table");
}

using Answer = std::function<Json(const Schedule&)>;

// What the fields of a case ask of the generated table.
const std::map<std::string, Answer>& answers() {
  static const std::map<std::string, Answer> all{
      {"stage_to_rank", [](const Schedule& s) { return Json(s.stage_to_rank()); }},
      {"compute", published},
      {"published_ir", published},
      {"executed_with_comms", executed},
      {"lowered", [](const Schedule& s) { return lowered(s, Receives::kEarly); }},
      {"lowered_deferred_recv", [](const Schedule& s) { return lowered(s, Receives::kDeferred); }},
      {"merge_bw", [](const Schedule& s) { return to_json(merge_backward(s), nullptr); }},
      {"csv_compute", [](const Schedule& s) { return csv(s, CsvFormat::kComputeOnly); }},
      {"csv_comms", [](const Schedule& s) { return csv(lower(s), CsvFormat::kComms); }},
      {"torch_sim_steps",
       [](const Schedule& s) { return Json(peer_steps(lower(s, {.messages_only = true}))); }},
      {"derived", derived}};
  return all;
}

Json answer_table(const Json& test_case, const Json& expected) {
  const Schedule schedule =
      generate({.kind = parse_schedule_kind(test_case.at("schedule").get<std::string>()),
                .pp = test_case.at("pp"),
                .microbatches = test_case.at("microbatches"),
                .stages_per_rank = test_case.at("stages_per_rank")});
  verify(schedule);
  Json got = Json::object();
  for (const auto& [field, value] : expected.items()) {
    const auto answer = answers().find(field);
    if (answer != answers().end()) got[field] = answer->second(schedule);
  }
  return got;
}

Outcome check_table(const Json& test_case) {
  const Json expected = expected_table(test_case);
  const Json asked = expected == refusal() ? Json::object() : expected;
  const bool wrong_ir = test_case.value("published_ir_differs", false);
  return {expected, result_or_refusal([&] { return answer_table(test_case, asked); }),
          wrong_ir ? &rules::kPublishedTable : nullptr};
}

const std::regex& task_pattern() {
  static const std::regex pattern(R"((\d+)(F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B)(\d+))");
  return pattern;
}

// Whether the cell holds tasks, an overlap of two, or an action on a stage, and nothing else.
bool is_whole(const std::string& cell) {
  static const std::regex rest(R"(\s*|\(;\)OVERLAP_F_B|\d+(UNSHARD|RESHARD|REDUCE_GRAD))");
  return std::regex_match(std::regex_replace(cell, task_pattern(), ""), rest);
}

// What each task of the cell does to its microbatch; B and I are both its backward.
std::vector<std::string> deeds_of(const std::string& cell) {
  std::vector<std::string> deeds;
  const auto end = std::sregex_iterator();
  for (auto task = std::sregex_iterator(cell.begin(), cell.end(), task_pattern()); task != end;
       ++task) {
    const std::string type = (*task)[2];
    deeds.push_back(concat((*task)[1], type == "I" ? "B" : type, (*task)[3]));
  }
  return deeds;
}

// The peer counts the different actions of a stage, and reads the beginning of a text: a table may
// have the right counts without being one.
const Rule* table_rule(const Json& test_case) {
  std::set<std::string> seen;
  for (const Json& row : test_case.at("rows")) {
    for (const Json& entry : row) {
      const std::string cell = entry.is_null() ? "" : entry.get<std::string>();
      if (!is_whole(cell)) return &rules::kTextBehindAction;
      for (const std::string& deed : deeds_of(cell)) {
        const std::string microbatch = deed.substr(deed.find_last_not_of("0123456789") + 1);
        const bool inside = std::stoll(microbatch) < test_case.at("microbatches");
        if (!seen.insert(deed).second || !inside) return &rules::kCountedTable;
      }
    }
  }
  return nullptr;
}

// A table of the second format is executed as it stands, if it can be.
Json validated(const Json& test_case) {
  const ScheduleShape shape{test_case.at("pp"), test_case.at("num_stages"),
                            test_case.at("microbatches")};
  const Schedule schedule("table", shape, rows_of(test_case.at("rows")));
  const bool as_is = test_case.at("format") == "compute_comms";
  if (as_is) to_csv(schedule, CsvFormat::kComms);  // Refuses idle slots.
  if (as_is) verify(schedule);
  const Json rows = as_is ? with_sorted_reshards(to_json(schedule, nullptr))
                          : lowered(schedule, Receives::kEarly);
  return {{"stage_to_rank", schedule.stage_to_rank()}, {"lowered", rows}};
}

Outcome check_validate(const Json& test_case) {
  const bool refused = test_case.contains("error");
  const Rule* const rule = refused ? nullptr : table_rule(test_case);
  Json expected = refusal();
  if (!refused && rule == nullptr) {
    expected = {{"stage_to_rank", test_case.at("stage_to_rank")},
                {"lowered", with_sorted_reshards(test_case.at("lowered"))}};
  }
  return {expected, result_or_refused_text([&] { return validated(test_case); }), rule};
}

Json task_json(const Task& task) {
  return {{"stage", task.stage},
          {"type", to_string(task.type)},
          {"microbatch", task.microbatch < 0 ? Json() : Json(task.microbatch)},
          {"sub", nullptr}};
}

Json action_json(const Action& action) {
  if (action.is_idle()) return nullptr;
  if (action.type() != ActionType::kOverlap) return task_json(action.tasks()[0]);
  Json parts = Json::array();
  for (const Task& task : action.tasks()) parts.push_back(task_json(task));
  return {{"stage", -1}, {"type", "OVERLAP_F_B"}, {"microbatch", nullptr}, {"sub", parts}};
}

// An overlap has one F and one B of different stages; the peer takes any parts, and none.
bool is_overlap(const Json& parts) {
  if (!parts.is_array() || parts.size() != 2 || parts[0]["stage"] == parts[1]["stage"])
    return false;
  const std::set<std::string> types{parts[0]["type"], parts[1]["type"]};
  return types == std::set<std::string>{"F", "B"};
}

// An action on a stage has no microbatch, every other one has.
bool is_task(const Json& action) {
  static const std::set<std::string> on_stages{"UNSHARD", "RESHARD", "REDUCE_GRAD"};
  return on_stages.contains(action.at("type")) == action.at("microbatch").is_null();
}

// Whether nothing but blanks stands around one action, which the peer's repr cannot tell.
bool is_whole_action(const std::string& text) {
  static const std::string kTask = R"(\s*\d+[A-Z_]+\d*\s*)";
  static const std::regex kWhole(kTask + R"(|\s*\()" + kTask + ";" + kTask +
                                 R"(\)\s*OVERLAP_F_B\s*)");
  return std::regex_match(text, kWhole);
}

const Rule* parse_rule(const Json& test_case) {
  if (test_case.contains("error") || test_case.at("action").is_null()) return nullptr;
  const Json& action = test_case.at("action");
  const bool overlap = action.at("type") == "OVERLAP_F_B";
  if (overlap ? !is_overlap(action.at("sub")) : !is_task(action)) return &rules::kHalfAction;
  return is_whole_action(test_case.at("text")) ? nullptr : &rules::kTextBehindAction;
}

Outcome check_parse(const Json& test_case) {
  const auto answer = [&]() -> Json {
    const Action action = parse_action(test_case.at("text").get<std::string>());
    return {{"action", action_json(action)}, {"repr", to_string(action)}};
  };
  const Rule* const rule = parse_rule(test_case);
  Json expected = refusal();
  if (rule == nullptr && !test_case.contains("error")) {
    expected = {{"action", test_case.at("action")}, {"repr", test_case.value("repr", "")}};
  }
  return {expected, result_or_refused_text(answer), rule};
}

StagePlacement placement_named(const std::string& style) {
  TSR_CHECK(style == "loop" || style == "v", "no placement is called '", style, "'");
  return style == "v" ? StagePlacement::kV : StagePlacement::kLoop;
}

Outcome check_mapping(const Json& test_case) {
  const int64_t pp = test_case.at("pp");
  const auto answer = [&]() -> Json {
    const auto ranks =
        place_stages(placement_named(test_case.at("style")), pp, test_case.at("num_stages"));
    std::vector<std::vector<size_t>> stages(static_cast<size_t>(pp));
    for (size_t s = 0; s < ranks.size(); ++s) stages[static_cast<size_t>(ranks[s])].push_back(s);
    return {{"stage_to_rank", ranks}, {"rank_to_stages", stages}};
  };
  Json expected = refusal();
  if (!test_case.contains("error")) {
    expected = {{"stage_to_rank", test_case.at("stage_to_rank")},
                {"rank_to_stages", test_case.at("rank_to_stages")}};
  }
  return {expected, result_or_refusal(answer)};
}

Outcome check_split(const Json& test_case) {
  return {test_case.at("sizes"),
          Json(microbatch_sizes(test_case.at("size"), test_case.at("chunks")))};
}

}  // namespace

Table pipeline_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const Json& table : file.value("tables", Json::array())) list.push_back({"table", table});
    for (const Json& small : file.value("small", Json::array())) {
      list.push_back({small.value("kind", "(no kind)"), small});
    }
    return list;
  };
  return {"pipeline",
          {{"table", check_table},
           {"validate", check_validate},
           {"parse", check_parse},
           {"mapping", check_mapping},
           {"split", check_split}},
          cases};
}

}  // namespace tessera::golden

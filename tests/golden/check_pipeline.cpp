// pipeline: the tables of torch.distributed.pipelining, its parser, validation, placement and
// splits.
#include <algorithm>
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

// The fields of a case that state its answer: all but those of the question. A refusal where the
// peer failed.
Json answer_fields(const Json& test_case) {
  if (test_case.contains("error")) return refusal();
  Json answer = test_case;
  for (const char* field :
       {"id", "kind", "note", "schedule", "pp", "stages_per_rank", "microbatches", "num_stages",
        "rows", "format", "text", "style", "size", "chunks"}) {
    answer.erase(field);
  }
  return answer;
}

Json expected_table(const Json& test_case) {
  Json expected = answer_fields(test_case);
  if (expected == refusal()) return expected;
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

// As many as the kind has where the case does not say.
int64_t stages_per_rank_of(const Json& test_case) {
  const auto kind = parse_schedule_kind(test_case.at("schedule").get<std::string>());
  return value_or(test_case, "stages_per_rank", is_single_stage(kind) ? 1 : 2);
}

Json answer_table(const Json& test_case, const Json& expected) {
  const Schedule schedule =
      generate({.kind = parse_schedule_kind(test_case.at("schedule").get<std::string>()),
                .pp = test_case.at("pp"),
                .microbatches = test_case.at("microbatches"),
                .stages_per_rank = stages_per_rank_of(test_case)});
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

// What each task of the cell does to its microbatch; B and I are both its backward.
std::vector<std::string> deeds_of(const std::string& cell) {
  static const std::regex kTask(R"(0*(\d+)(F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B)0*(\d+))");
  std::vector<std::string> deeds;
  const auto end = std::sregex_iterator();
  for (auto task = std::sregex_iterator(cell.begin(), cell.end(), kTask); task != end; ++task) {
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
      if (const Rule* const rule = rules::of_action(cell)) return rule;
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
  const std::string format = value_or(test_case, "format", "compute_only");
  const bool as_is = format == "compute_comms";
  if (!as_is && format != "compute_only") throw UnknownName("format of a table", format);
  if (as_is) to_csv(schedule, CsvFormat::kComms);  // Refuses idle slots.
  if (as_is) verify(schedule);
  const Json rows = as_is ? with_sorted_reshards(to_json(schedule, nullptr))
                          : lowered(schedule, Receives::kEarly);
  return {{"stage_to_rank", schedule.stage_to_rank()}, {"lowered", rows}};
}

Outcome check_validate(const Json& test_case) {
  Json expected = answer_fields(test_case);
  const Rule* const rule = expected == refusal() ? nullptr : table_rule(test_case);
  if (rule != nullptr) expected = refusal();
  if (expected.contains("lowered")) expected["lowered"] = with_sorted_reshards(expected["lowered"]);
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
  if (action.tasks().size() == 1) return task_json(action.tasks()[0]);
  Json parts = Json::array();
  for (const Task& task : action.tasks()) parts.push_back(task_json(task));
  return {
      {"stage", -1}, {"type", to_string(action.type())}, {"microbatch", nullptr}, {"sub", parts}};
}

Json parsed(const std::string& text) {
  return result_or_refused_text([&]() -> Json {
    const Action action = parse_action(text);
    return {{"action", action_json(action)}, {"repr", to_string(action)}};
  });
}

// The texts between the braces of a batch, and of nothing else: one send and one receive.
std::vector<std::string> parts_of_batch(const std::string& text) {
  static const std::regex kBatch(R"([ \t\n\v\f\r\x1c-\x1f]*\{([^{}]*)\}[ \t\n\v\f\r\x1c-\x1f]*)");
  std::smatch match;
  if (!std::regex_match(text, match, kBatch)) return {};
  const std::string inner = match[1];
  std::vector<std::string> parts;
  for (const std::string_view part : split(inner, ',')) {
    if (rules::of_action(std::string(part)) != nullptr) return {};
    if (part.find_first_of("0123456789") != part.npos) parts.emplace_back(part);
  }
  const auto has = [&](const char* type) {
    return std::ranges::any_of(parts, [&](const auto& p) { return p.find(type) != p.npos; });
  };
  return parts.size() == 2 && has("SEND_") && has("RECV_") ? parts : std::vector<std::string>();
}

// The peer prints batches in braces and does not read them: ours must be what stands between them.
Outcome check_batch(const std::vector<std::string>& parts, const std::string& text) {
  Json expected{{"action", {{"stage", -1}, {"type", "{}"}, {"microbatch", nullptr}}}};
  std::vector<std::string> texts;
  for (const std::string& part : parts) {
    const Json task = parsed(part);
    expected["action"]["sub"].push_back(task.at("action"));
    texts.push_back(task.at("repr"));
  }
  expected["repr"] = concat("{", join(texts, ","), "}");
  return {expected, parsed(text), &rules::kBatchText};
}

Outcome check_parse(const Json& test_case) {
  const std::string text = test_case.at("text");
  Json expected = answer_fields(test_case);
  if (expected == refusal()) {
    const std::vector<std::string> batch = parts_of_batch(text);
    return batch.empty() ? Outcome{expected, parsed(text)} : check_batch(batch, text);
  }
  if (const Rule* const rule = rules::of_action(text)) return {refusal(), parsed(text), rule};
  if (!expected.contains("repr")) expected["repr"] = "";  // An idle slot has none.
  return {expected, parsed(text)};
}

StagePlacement placement_named(const std::string& style) {
  if (style != "loop" && style != "v") throw UnknownName("placement", style);
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
  return {answer_fields(test_case), result_or_refusal(answer)};
}

Outcome check_split(const Json& test_case) {
  return {answer_fields(test_case), result_or_refusal([&] {
            return Json{{"sizes", microbatch_sizes(test_case.at("size"), test_case.at("chunks"))}};
          })};
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

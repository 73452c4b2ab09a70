// olmo_schedule: what OLMo-core's PipelineSchedule executes, in which order.
#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tessera/schedule/verify.h"
#include "tests/golden/golden.h"
#include "tests/golden/schedule_json.h"

namespace tessera::golden {
namespace {

// The peer takes as many microbatches as ranks where it is given none.
ScheduleConfig config_of(const Json& test_case) {
  const int64_t pp = test_case.at("degree");
  const int64_t num_stages = test_case.at("num_stages");
  TSR_CHECK(pp > 0 && num_stages % pp == 0, num_stages, " stages on ", pp, " ranks");
  const Json microbatches = value_or(test_case, "num_microbatches", nullptr);
  return {.kind = parse_schedule_kind(test_case.at("schedule").get<std::string>()),
          .pp = pp,
          .microbatches = microbatches.is_null() ? pp : microbatches.get<int64_t>(),
          .stages_per_rank = num_stages / pp};
}

// Compute in order, and the final scaling of a stage's gradients as "<stage>G".
std::string executed_text(const ScheduleRow& row) {
  std::vector<std::string> texts;
  for (const Action& action : row) {
    if (action.computes()) texts.push_back(to_string(action));
    if (action.type() == ActionType::kReduceGrad) {
      texts.push_back(concat(action.tasks()[0].stage, "G"));
    }
  }
  return join(texts, " ");
}

// The peer's stages keep their parameters: gathers and frees are not in its list.
std::string comms_text(const ScheduleRow& row) {
  std::vector<std::string> texts;
  for (const Action& action : row) {
    const bool sharding =
        action.type() == ActionType::kUnshard || action.type() == ActionType::kReshard;
    if (!sharding) texts.push_back(to_string(action));
  }
  return join(texts, " ");
}

Json answer(const Json& test_case) {
  const Schedule table = generate(config_of(test_case));
  const bool single = is_single_stage(parse_schedule_kind(table.name()));
  const Schedule lowered = lower(table);
  verify(lowered);
  const Json texts = to_json(table, "");
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < table.pp(); ++rank) {
    const auto stages = table.stages_of(GroupRank{rank});
    Json entry{{"stage_ids", stages},
               {"num_microbatches", table.microbatches()},
               {"has_first_stage", stages.front() == 0},
               {"has_last_stage", stages.back() == table.num_stages() - 1},
               {"executed", executed_text(lowered.row(GroupRank{rank}))}};
    if (!single) {
      entry["table"] = texts.at(static_cast<size_t>(rank));
      entry["comms"] = comms_text(lowered.row(GroupRank{rank}));
    }
    ranks.push_back(std::move(entry));
  }
  return ranks;
}

Outcome check_schedule(const Json& test_case) {
  const Json& result = test_case.at("result");
  return {result.contains("error") ? refusal() : result.at("ranks"),
          result_or_refusal([&] { return answer(test_case); })};
}

}  // namespace

Table olmo_schedule_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const Json& test_case : file.value("cases", Json::array())) {
      list.push_back({"schedule", test_case});
    }
    return list;
  };
  return {"olmo_schedule", {{"schedule", check_schedule}}, cases};
}

}  // namespace tessera::golden

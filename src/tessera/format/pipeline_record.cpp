#include "tessera/format/pipeline_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/json_field.h"
#include "tessera/base/text.h"
#include "tessera/format/internal/record_files.h"

namespace tessera {

using namespace format::detail;

namespace {

using Json = nlohmann::ordered_json;
using Field = JsonField;

constexpr int64_t kVersion = 1;
constexpr int64_t kMost = 1 << 22;  // Ranks, stages or microbatches.

Action action_of(const Field& field) {
  constexpr std::string_view kExpected = "an action as text, \"0F3\"";
  Action action;
  try {
    action = parse_action(field.text());
  } catch (const DataError&) {
    field.refuse(kExpected);
  }
  if (action.is_idle()) field.refuse(kExpected);
  return action;
}

// Checks that a rank computes one action at a time.
std::vector<RecordedAction> actions_of(const Field& root) {
  double free = 0;
  return root.at("actions").list([&](const Field& field) {
    const RecordedAction recorded{action_of(field.at("action")), time_span_of(field)};
    const auto& [action, time] = recorded;
    if (!action.computes()) return recorded;
    if (time.start < free) {
      field.at("start").refuse(concat("at least ", free, ", when the rank was free"));
    }
    free = time.end;
    return recorded;
  });
}

}  // namespace

std::string to_json(const PipelineRecord& record) {
  const Json head{{"version", kVersion},
                  {"schedule", record.schedule},
                  {"pp", record.shape.pp},
                  {"stages", record.shape.num_stages},
                  {"microbatches", record.shape.microbatches},
                  {"step", record.step},
                  {"rank", record.rank.value}};
  std::vector<Json> lines;
  for (const auto& [action, time] : record.actions) {
    lines.push_back({{"action", to_string(action)}, {"start", time.start}, {"end", time.end}});
  }
  return record_text(head, "actions", lines);
}

PipelineRecord parse_pipeline_record(std::string_view text, std::string_view origin) {
  check_record_size(text, kLargestPipelineRecord, origin);
  const JsonSource source{.origin = origin, .what = "recorded step"};
  const nlohmann::json document = parse_json(text, source);
  const Field root(document, source);
  root.at("version").integer(kVersion, kVersion);
  PipelineRecord record{.schedule = root.at("schedule").text()};
  record.shape.pp = root.at("pp").integer(1, kMost);
  record.shape.num_stages = root.at("stages").integer(record.shape.pp, kMost);
  record.shape.microbatches = root.at("microbatches").integer(1, kMost);
  record.step = root.at("step").integer(0);
  record.rank = GroupRank{root.at("rank").integer(0, record.shape.pp - 1)};
  record.actions = actions_of(root);
  return record;
}

}  // namespace tessera

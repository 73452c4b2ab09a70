#include "tessera/format/unit_record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/json_field.h"
#include "tessera/base/number_text.h"
#include "tessera/base/read_file.h"
#include "tessera/base/text.h"
#include "tessera/format/internal/record_files.h"

namespace tessera {

using namespace format::detail;

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kVersion = 1;
constexpr double kShortest = 1e-9;  // Seconds; a time axis needs a length.
constexpr std::array<std::string_view, 8> kActions{"gather", "held", "forward",  "backward",
                                                   "reduce", "wait", "exchange", "attend"};

bool is_communication(UnitAction action) {
  return action == UnitAction::kGather || action == UnitAction::kReduce ||
         action == UnitAction::kExchange;
}

UnitAction action_of(const JsonField& field) {
  const auto found = std::ranges::find(kActions, field.text());
  if (found == kActions.end()) field.refuse(concat("one of ", join(kActions, ", ")));
  return static_cast<UnitAction>(found - kActions.begin());
}

UnitEvent event_of(const JsonField& field, double last) {
  UnitEvent event{field.at("unit").text(), action_of(field.at("action")), time_span_of(field)};
  if (event.time.end > last) {
    field.at("end").refuse(concat("at most ", last, ", the end of the step"));
  }
  return event;
}

std::filesystem::path folder_of(const std::filesystem::path& run) {
  return run / "units";
}

RecordFiles files_of(const std::filesystem::path& run) {
  RecordFiles files = record_files(folder_of(run));
  if (files.empty()) {
    throw DataError(
        concat(run.string(), " has no recorded step of units (units/step-K.rank-R.",
               "json); give the folder of a run with shards or --cp, and --run.record_every"));
  }
  return files;
}

// The time that at least one of the events takes.
double union_length(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::start);
  double length = 0;
  double covered = 0;
  for (const TimeSpan& span : spans) {
    length += std::max(0.0, span.end - std::max(span.start, covered));
    covered = std::max(covered, span.end);
  }
  return length;
}

}  // namespace

std::string_view to_string(UnitAction action) {
  return kActions.at(static_cast<size_t>(action));
}

std::string to_json(const UnitRecord& record) {
  const Json head{{"version", kVersion},
                  {"step", record.step},
                  {"rank", record.rank.value},
                  {"seconds", record.seconds}};
  std::vector<Json> lines;
  for (const auto& [unit, action, time] : record.events) {
    lines.push_back(
        {{"unit", unit}, {"action", to_string(action)}, {"start", time.start}, {"end", time.end}});
  }
  return record_text(head, "events", lines);
}

UnitRecord parse_unit_record(std::string_view text, std::string_view origin) {
  check_record_size(text, kLargestUnitRecord, origin);
  const JsonSource source{.origin = origin, .what = "recorded step"};
  const nlohmann::json document = parse_json(text, source);
  const JsonField root(document, source);
  root.at("version").integer(kVersion, kVersion);
  UnitRecord record{.step = root.at("step").integer(0),
                    .rank = GlobalRank{root.at("rank").integer(0)},
                    .seconds = seconds_of(root.at("seconds"))};
  root.at("seconds").check(record.seconds >= kShortest, "at least a nanosecond");
  record.events = root.at("events").list(
      [&](const JsonField& field) { return event_of(field, record.seconds); });
  return record;
}

std::filesystem::path unit_record_path(const std::filesystem::path& run, int64_t step,
                                       GlobalRank rank) {
  return record_path(folder_of(run), step, rank.value);
}

void write_unit_record(const std::filesystem::path& run, const UnitRecord& record) {
  write_record(unit_record_path(run, record.step, record.rank), to_json(record));
}

std::vector<int64_t> recorded_unit_steps(const std::filesystem::path& run) {
  return steps_of(files_of(run));
}

std::vector<UnitRecord> read_unit_records(const std::filesystem::path& run, int64_t step) {
  const RecordFiles files = files_of(run);
  std::vector<UnitRecord> records;
  for (const std::filesystem::path& path : files_of_step(files, step)) {
    records.push_back(parse_unit_record(read_file(path, kLargestUnitRecord), path.string()));
    check_name(path, records.back().step, records.back().rank.value);
  }
  std::ranges::sort(records, {}, &UnitRecord::rank);
  return records;
}

CommunicationTimes communication_times(const UnitRecord& record) {
  std::vector<TimeSpan> in_flight;
  std::vector<TimeSpan> waits;
  for (const auto& [unit, action, time] : record.events) {
    if (is_communication(action)) in_flight.push_back(time);
    if (action == UnitAction::kWait) waits.push_back(time);
  }
  return {record.seconds, union_length(std::move(in_flight)), union_length(std::move(waits))};
}

std::string to_string(const CommunicationTimes& times) {
  const auto ms = [](double seconds) { return concat(fixed(seconds * 1e3, 1), " ms"); };
  return concat("communication in flight for ", ms(times.in_flight), " of ", ms(times.step),
                "; compute waited for it ", ms(times.waited), " (", percent(times.waited_share()),
                " of the step)");
}

}  // namespace tessera

#include "cli/schedule/units.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/parse.h"
#include "cli/schedule/results.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "tessera/base/check.h"
#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/unit_timeline.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMsPerSecond = 1e3;
constexpr size_t kMostRanks = 64;  // That a table lists.

std::vector<UnitRecord> records_of(const ScheduleFlags& flags) {
  const std::string& run = *flags.from_trace;
  const std::vector<int64_t> steps = recorded_unit_steps(run);
  return read_unit_records(run, flags.step.value_or(steps.back()));
}

const UnitRecord& shown_of(const std::vector<UnitRecord>& records,
                           const std::optional<int64_t>& rank) {
  if (!rank) return records.front();
  const auto found = std::ranges::find(records, GlobalRank{*rank}, &UnitRecord::rank);
  std::vector<int64_t> ranks;
  for (const UnitRecord& record : records) ranks.push_back(record.rank.value);
  TSR_CHECK(found != records.end(), "--rank ", *rank, " was not recorded; choose from ",
            join(ranks, ", "));
  return *found;
}

std::string trace_of(std::span<const UnitRecord> records) {
  std::ostringstream trace;
  write_unit_trace(records, trace);
  return std::move(trace).str();
}

// The picture shows one rank; the trace all of them, or the one that was asked for.
std::vector<ScheduleFile> files_of(const ScheduleFlags& flags,
                                   const std::vector<UnitRecord>& records,
                                   const UnitRecord& shown) {
  std::vector<ScheduleFile> files;
  if (flags.svg) {
    check_picture_size(std::ssize(shown.events), "--svg");
    files.push_back({"picture", *flags.svg,
                     draw_svg(unit_timeline(shown),
                              concat("Units of rank ", shown.rank, " in step ", shown.step),
                              to_string(communication_times(shown)))});
  }
  if (flags.trace) {
    const std::span<const UnitRecord> traced = flags.rank ? std::span(&shown, 1) : records;
    int64_t events = 0;
    for (const UnitRecord& record : traced) events += std::ssize(record.events);
    check_trace_size(events, "--trace");
    files.push_back({"trace (ui.perfetto.dev opens it)", *flags.trace, trace_of(traced)});
  }
  return files;
}

Json json_of(const UnitRecord& record) {
  const CommunicationTimes times = communication_times(record);
  Json events = Json::array();
  for (const auto& [unit, action, time] : record.events) {
    events.push_back({{"unit", unit},
                      {"action", to_string(action)},
                      {"start", time.start * kMsPerSecond},
                      {"end", time.end * kMsPerSecond}});
  }
  return {{"rank", record.rank.value},
          {"step_ms", times.step * kMsPerSecond},
          {"in_flight_ms", times.in_flight * kMsPerSecond},
          {"waited_ms", times.waited * kMsPerSecond},
          {"waited_share", times.waited_share()},
          {"events", std::move(events)}};
}

void write_json(const std::vector<UnitRecord>& records, std::ostream& out) {
  Json ranks = Json::array();
  for (const UnitRecord& record : records) ranks.push_back(json_of(record));
  const Json document{{"step", records.front().step}, {"ranks", std::move(ranks)}};
  out << document.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

std::string table_of(const std::vector<UnitRecord>& records) {
  Table table;
  for (const char* title : {"rank", "step ms", "in flight ms", "waited ms", "waited"}) {
    table.add_column(title, Align::kRight);
  }
  for (size_t i = 0; i < std::min(records.size(), kMostRanks); ++i) {
    const CommunicationTimes times = communication_times(records[i]);
    table.add_row({concat(records[i].rank), fixed(times.step * kMsPerSecond, 1),
                   fixed(times.in_flight * kMsPerSecond, 1), fixed(times.waited * kMsPerSecond, 1),
                   percent(times.waited_share())});
  }
  return table.to_string();
}

}  // namespace

int show_units(const ScheduleFlags& flags) {
  const std::vector<UnitRecord> records = records_of(flags);
  const UnitRecord& shown = shown_of(records, flags.rank);
  const std::vector<ScheduleFile> files = files_of(flags, records, shown);
  write_files(files);
  if (flags.json) write_json(records, data_out());
  if (flags.uses_stdout()) return kOk;

  const TerminalOptions terminal{terminal_width(), color_mode(flags.color)};
  const UnitTimeline timeline = unit_timeline(shown);
  std::cout << bold(concat("units of rank ", shown.rank, " in step ", shown.step), terminal.color)
            << "\n";
  if (fits_terminal(timeline)) std::cout << draw_terminal(timeline, terminal);
  std::cout << "\nrank " << shown.rank << ": " << to_string(communication_times(shown)) << "\n\n"
            << table_of(records);
  list_files(files);
  return kOk;
}

}  // namespace tessera::cli

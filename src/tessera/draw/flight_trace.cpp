#include "tessera/draw/flight_trace.h"

#include <algorithm>
#include <map>

#include "tessera/base/text.h"
#include "tessera/draw/trace_json.h"
#include "tessera/format/flight_match.h"
#include "tessera/topology/rank_text.h"

namespace tessera {
namespace {

using Spot = std::pair<const FlightDump*, const FlightEntry*>;

int64_t first_time(std::span<const FlightDump> dumps) {
  int64_t first = INT64_MAX;
  for (const FlightDump& dump : dumps) {
    first = std::min(first, dump.created_ns);
    for (const FlightEntry& entry : dump.entries) first = std::min(first, entry.time_created_ns);
  }
  return first;
}

std::string tensors_text(const std::vector<FlightTensor>& tensors) {
  std::vector<std::string> parts;
  for (const FlightTensor& tensor : tensors) parts.push_back(to_string(tensor));
  return join(parts, " ");
}

// Writes the spans of all ranks and remembers their positions for the arrows.
class FlightTrace {
 public:
  FlightTrace(std::span<const FlightDump> dumps, std::ostream& out)
      : dumps_(dumps), writer_(out), start_ns_(first_time(dumps)) {}

  void write() {
    for (const FlightDump& dump : dumps_) write_rank(dump);
    for (const FlightMatch& match : flight_matches(dumps_)) write_flow(match);
    writer_.finish();
  }

 private:
  void write_rank(const FlightDump& dump) {
    const int64_t process = dump.rank.value;
    writer_.name_process(process, concat("rank ", dump.rank, " (", dump.host, ")"));
    writer_.instant({{process, 0}, dump.created_ns - start_ns_}, concat("dump: ", dump.reason));
    int64_t next_thread = 1;
    for (const FlightGroup& group : dump.groups)
      next_thread = write_group(dump, group, next_thread);
  }

  // Operations of one group may be in flight at once; each row holds operations that do not
  // overlap.
  int64_t write_group(const FlightDump& dump, const FlightGroup& group, int64_t first_thread) {
    std::vector<const FlightEntry*> entries;
    for (const FlightEntry& entry : dump.entries) {
      if (entry.group_id == group.id) entries.push_back(&entry);
    }
    std::ranges::stable_sort(entries, {}, &FlightEntry::time_created_ns);
    std::vector<TimeRange> ranges;
    for (const FlightEntry* entry : entries) ranges.push_back(range_of(dump, *entry));
    const std::vector<size_t> rows = assign_rows(ranges);
    const size_t count = rows.empty() ? 0 : *std::ranges::max_element(rows) + 1;
    for (size_t row = 0; row < count; ++row) {
      writer_.name_thread({dump.rank.value, first_thread + static_cast<int64_t>(row)},
                          row == 0 ? label_of(group) : concat(label_of(group), " (", row + 1, ")"));
    }
    for (size_t i = 0; i < entries.size(); ++i) {
      const int64_t thread = first_thread + static_cast<int64_t>(rows[i]);
      write_entry(dump, group, *entries[i], {{dump.rank.value, thread}, ranges[i].begin_ns},
                  ranges[i].end_ns);
    }
    return first_thread + static_cast<int64_t>(count);
  }

  TimeRange range_of(const FlightDump& dump, const FlightEntry& entry) const {
    const bool ended = entry.state == FlightState::kCompleted;
    const int64_t end =
        ended ? entry.time_completed_ns.value_or(entry.time_created_ns) : dump.created_ns;
    return {entry.time_created_ns - start_ns_, std::max(end, entry.time_created_ns) - start_ns_};
  }

  void write_entry(const FlightDump& dump, const FlightGroup& group, const FlightEntry& entry,
                   const TracePoint& begin, int64_t end_ns) {
    const bool ended = entry.state == FlightState::kCompleted;
    places_[{&dump, &entry}] = begin;
    writer_.span({.track = begin.track,
                  .name = concat(operation_name(group, entry), " #", sequence_of(entry),
                                 ended ? "" : " (pending)"),
                  .begin_ns = begin.at_ns,
                  .end_ns = end_ns,
                  .details = {{"state", to_string(entry.state)},
                              {"inputs", tensors_text(entry.inputs)},
                              {"outputs", tensors_text(entry.outputs)},
                              {"group", group.name},
                              {"ranks", short_list(group.ranks)},
                              {"record", std::to_string(entry.record_id)}}});
  }

  // From the first rank to arrive to the last one, the straggler.
  void write_flow(const FlightMatch& match) {
    std::vector<TracePoint> points;
    for (const auto& [dump, entry] : match.participants)
      points.push_back(places_.at({dump, entry}));
    if (points.size() < 2) return;
    std::ranges::stable_sort(points, {}, &TracePoint::at_ns);
    const FlightParticipant& first = match.participants.front();
    writer_.flow(points, concat(operation_name(group_of(*first.dump, *first.entry), *first.entry),
                                " #", match.sequence));
  }

  std::span<const FlightDump> dumps_;
  TraceWriter writer_;
  int64_t start_ns_;
  std::map<Spot, TracePoint> places_;
};

}  // namespace

void write_flight_trace(std::span<const FlightDump> dumps, std::ostream& out) {
  FlightTrace(dumps, out).write();
}

}  // namespace tessera

#include "tessera/draw/step_trace.h"

#include <algorithm>
#include <set>

#include "tessera/base/text.h"
#include "tessera/format/flight_match.h"

namespace tessera {
namespace {

class StepTraceRows {
 public:
  StepTraceRows(const StepTrace& trace, std::ostream& out) : trace_(trace), writer_(out) {}

  void write() {
    writer_.name_process(trace_.rank, concat("rank ", trace_.rank));
    write_steps();
    write_operators();
    for (const FlightGroup& group : trace_.communication.groups) write_group(group);
    for (const auto& [device, at_ns, bytes] : trace_.memory) {
      writer_.counter({{trace_.rank, 0}, at_ns - trace_.start_ns}, concat("memory of ", device),
                      static_cast<double>(bytes));
    }
    writer_.finish();
  }

 private:
  TraceTrack new_row(const std::string& name) {
    const TraceTrack track{trace_.rank, next_row_++};
    writer_.name_thread(track, name);
    return track;
  }

  void span(TraceTrack track, std::string name, const TimeRange& time,
            std::vector<std::pair<std::string, std::string>> details = {}) {
    writer_.span({.track = track,
                  .name = std::move(name),
                  .begin_ns = time.begin_ns - trace_.start_ns,
                  .end_ns = time.end_ns - trace_.start_ns,
                  .details = std::move(details)});
  }

  void write_steps() {
    const TraceTrack row = new_row("steps");
    for (const auto& [step, time] : trace_.steps) span(row, concat("step ", step), time);
  }

  void write_operators() {
    std::set<int64_t> threads;
    for (const auto& one : trace_.operators) threads.insert(one.thread);
    for (const int64_t thread : threads) {
      const TraceTrack row = new_row(concat("operators, thread ", thread));
      for (const auto& one : trace_.operators) {
        if (one.thread == thread) span(row, one.name, one.time);
      }
    }
  }

  // Operations of one group may be in flight at once; those of one row do not overlap.
  void write_group(const FlightGroup& group) {
    std::vector<const FlightEntry*> entries;
    for (const FlightEntry& entry : trace_.communication.entries) {
      const bool traced = std::ranges::any_of(trace_.steps, [&](const StepTrace::Step& step) {
        return step.time.begin_ns <= entry.time_created_ns &&
               entry.time_created_ns < step.time.end_ns;
      });
      if (traced && entry.group_id == group.id) entries.push_back(&entry);
    }
    std::ranges::stable_sort(entries, {}, &FlightEntry::time_created_ns);
    std::vector<TimeRange> ranges;
    for (const FlightEntry* entry : entries) {
      const int64_t begin = entry->time_created_ns;
      ranges.push_back({begin, std::max(begin, entry->time_completed_ns.value_or(begin))});
    }
    const std::vector<size_t> rows = assign_rows(ranges);
    std::vector<TraceTrack> tracks;
    for (size_t i = 0; i < entries.size(); ++i) {
      while (tracks.size() <= rows[i]) tracks.push_back(new_row("communication, " + group.desc));
      std::vector<std::string> inputs;
      for (const FlightTensor& tensor : entries[i]->inputs) inputs.push_back(to_string(tensor));
      span(tracks[rows[i]], operation_name(group, *entries[i]), ranges[i],
           {{"inputs", join(inputs, " ")}, {"group", group.name}});
    }
  }

  const StepTrace& trace_;
  TraceWriter writer_;
  int64_t next_row_ = 0;
};

}  // namespace

void write_step_trace(const StepTrace& trace, std::ostream& out) {
  StepTraceRows(trace, out).write();
}

}  // namespace tessera

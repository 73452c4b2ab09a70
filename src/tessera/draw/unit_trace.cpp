#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/base/text.h"
#include "tessera/draw/internal/unit_colors.h"
#include "tessera/draw/trace_json.h"
#include "tessera/draw/unit_timeline.h"

namespace tessera {

using namespace draw::detail;

namespace {

int64_t unit_ns(double ms) {
  return std::llround(ms * 1e6);
}

// The rows of one rank, a process of the trace.
class RankTrace {
 public:
  RankTrace(const UnitRecord& record, TraceWriter& writer)
      : process_(record.rank.value), timeline_(unit_timeline(record)), writer_(writer) {}

  void write() {
    writer_.name_process(process_, concat("rank ", process_));
    write_row(timeline_.compute);
    write_row(timeline_.exchange);
    for (const UnitRow& row : timeline_.units) write_row(row);
    write_held();
  }

 private:
  // Events of one unit may overlap; each row of the trace holds those that do not.
  void write_row(const UnitRow& row) {
    std::vector<UnitEvent> events = row.events;
    std::ranges::stable_sort(events, {}, [](const UnitEvent& event) { return event.time.start; });
    std::vector<TimeRange> ranges;
    for (const UnitEvent& event : events) {
      ranges.push_back({unit_ns(event.time.start), unit_ns(event.time.end)});
    }
    const std::vector<size_t> rows = assign_rows(ranges);
    const size_t count = rows.empty() ? 0 : *std::ranges::max_element(rows) + 1;
    for (size_t i = 0; i < count; ++i) {
      writer_.name_thread(track(i), i == 0 ? row.name : concat(row.name, " (", i + 1, ")"));
    }
    for (size_t i = 0; i < events.size(); ++i) {
      writer_.span({.track = track(rows[i]),
                    .name = std::string(to_string(events[i].action)),
                    .begin_ns = ranges[i].begin_ns,
                    .end_ns = ranges[i].end_ns,
                    .details = {{"unit", events[i].unit}}});
    }
    next_thread_ += static_cast<int64_t>(count);
  }

  TraceTrack track(size_t row) const {
    return {process_, next_thread_ + static_cast<int64_t>(row)};
  }

  void write_held() {
    std::map<int64_t, int64_t> changes;
    for (const UnitRow& row : timeline_.units) {
      for (const UnitEvent& event : row.events) {
        if (event.action != UnitAction::kHeld) continue;
        ++changes[unit_ns(event.time.start)];
        --changes[unit_ns(event.time.end)];
      }
    }
    int64_t held = 0;
    for (const auto& [at, change] : changes) {
      held += change;
      writer_.counter({{process_, 0}, at}, "gathered buffers in memory", static_cast<double>(held));
    }
  }

  int64_t process_;
  UnitTimeline timeline_;
  TraceWriter& writer_;
  int64_t next_thread_ = 1;  // Thread 0 is the process itself.
};

}  // namespace

void write_unit_trace(std::span<const UnitRecord> records, std::ostream& out) {
  TraceWriter writer(out);
  for (const UnitRecord& record : records) RankTrace(record, writer).write();
  writer.finish();
}

}  // namespace tessera

#pragma once

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tessera/draw/timeline.h"
#include "tessera/schedule/verify.h"

namespace tessera::cli {

/// A schedule to show, and its results.
struct ScheduleView {
  Schedule schedule;
  Verification verification;
  Simulation simulation;
  std::string origin;  // What a search says about it; "" if there was none.

  int64_t stages_per_rank() const { return schedule.num_stages() / schedule.pp(); }
};

struct ScheduleTextOptions {
  TerminalOptions terminal;
  bool compare = false;  // Show a table of schedules instead of a table of ranks.
};

void write_schedule_text(std::span<const ScheduleView> views, std::span<const Timeline> timelines,
                         const ScheduleTextOptions& options, std::ostream& out);

/// Writes one object, or with `compare` a list of objects, on a line of its own.
void write_schedule_json(const ScheduleView& view, std::ostream& out);
void write_schedule_json(std::span<const ScheduleView> views, bool compare, std::ostream& out);

}  // namespace tessera::cli

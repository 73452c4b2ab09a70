#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/schedule/flags.h"
#include "tessera/base/color.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/schedule/alternatives.h"

namespace tessera::cli {

/// A recorded step of a run, and what follows from it. Times are in milliseconds.
struct RecordedView {
  RecordedStep step;
  Costs costs;
  Simulation simulated;  // The same table with the measured costs.
  std::vector<Alternative> others;

  /// The fastest alternative that needs no more memory than was used, or than the limit allows;
  /// null if none is faster than the recorded schedule.
  const Alternative* best = nullptr;
};

/// `tessera schedule --from-trace RUN`.
int show_recorded(const ScheduleFlags& flags);

/// Measured against simulated times, times per stage, and the times of other schedules.
void write_recorded_text(const RecordedView& view, std::ostream& out);
void write_recorded_json(const RecordedView& view, std::ostream& out);

/// "times of a stage in ms: forward 1.2, …".
std::string costs_text(const RecordedView& view);

}  // namespace tessera::cli

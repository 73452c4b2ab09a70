#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/schedule/flags.h"
#include "tessera/base/color.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/schedule/alternatives.h"

namespace tessera::cli {

/// A step of a real run, and what can be learned from it. Times are in milliseconds.
struct RecordedView {
  RecordedStep step;
  Costs costs;
  Simulation simulated;  // The same table with these costs.
  std::vector<Alternative> others;

  /// The quickest that takes no more memory than was used, or than was allowed; null where none is
  /// quicker than the present schedule.
  const Alternative* best = nullptr;
};

/// `tessera schedule --from-trace RUN`.
int show_recorded(const ScheduleFlags& flags);

/// Measured against simulated, the times of stages, and what other schedules would take.
void write_recorded_text(const RecordedView& view, std::ostream& out);
void write_recorded_json(const RecordedView& view, std::ostream& out);

/// "times of a stage in ms: forward 1.2, …".
std::string costs_text(const RecordedView& view);

}  // namespace tessera::cli

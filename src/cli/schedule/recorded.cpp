// `tessera schedule --from-trace RUN`: a recorded step beside its simulation, and possible
// improvements.
#include "cli/schedule/recorded.h"

#include <algorithm>
#include <iostream>

#include "cli/parse.h"
#include "cli/schedule/results.h"
#include "cli/terminal.h"
#include "tessera/base/text.h"
#include "tessera/draw/timeline_terminal.h"
#include "tessera/schedule/measure.h"

namespace tessera::cli {
namespace {

constexpr double kSlack = 1e-9;  // Tolerance for a share that is 1 except for rounding.

RecordedView view_of(const ScheduleFlags& flags) {
  const std::string& run = *flags.from_trace;
  RecordedStep step =
      read_recorded_step(run, flags.step ? *flags.step : recorded_steps(run).back());
  Costs costs = measure_costs(step.schedule, step.simulation);
  Simulation simulated = simulate(step.schedule, costs);
  auto others = alternatives(step.schedule, costs, flags.memory_limit);
  return {std::move(step), std::move(costs), std::move(simulated), std::move(others)};
}

// The alternatives are sorted by time and respect the memory limit, if one was given.
const Alternative* best_of(const RecordedView& view, bool limited) {
  const auto found = std::ranges::find_if(
      view.others, [&](const Alternative& other) { return limited || other.memory <= 1 + kSlack; });
  const bool better = found != view.others.end() && found->time < 1 - kSlack;
  return better ? &*found : nullptr;
}

}  // namespace

int show_recorded(const ScheduleFlags& flags) {
  RecordedView view = view_of(flags);
  view.best = best_of(view, flags.memory_limit.has_value());
  const Schedule& schedule = view.step.schedule;
  const std::vector<Timeline> timelines{
      {schedule, view.step.simulation, concat(schedule.name(), ", measured")},
      {schedule, view.simulated, concat(schedule.name(), ", simulated")}};
  const std::vector<ScheduleFile> files =
      make_files(flags, {.timelines = timelines,
                         .title = concat("Step ", view.step.step, " of ", *flags.from_trace),
                         .subtitle = costs_text(view),
                         .table = view.best == nullptr ? schedule : view.best->schedule});
  write_files(files);
  if (flags.json) write_recorded_json(view, data_out());
  if (flags.uses_stdout()) return kOk;

  const TerminalOptions terminal{terminal_width(), color_mode(flags.color)};
  if (fits_terminal(timelines, terminal)) std::cout << draw_terminal(timelines, terminal) << "\n";
  write_recorded_text(view, std::cout);
  list_files(files);
  return kOk;
}

}  // namespace tessera::cli

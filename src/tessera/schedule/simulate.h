#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// What things cost, in any one unit of time. A list has one entry for all stages or one for each.
struct Costs {
  std::vector<double> forward{1};
  std::vector<double> input_grad{1};
  std::vector<double> weight_grad{1};  // A full backward takes both.
  // From the end of a task to when its result is there on the other rank; by the stage that sends.
  std::vector<double> message{0};
  double overlap = 1;  // What an overlap takes, as a share of the sum of its parts.
};

/// latency + bytes / bandwidth, for Costs::message.
double message_time(double latency, double bytes, double bandwidth);

struct TimeSpan {
  double start = 0;
  double end = 0;

  double length() const { return end - start; }
  friend bool operator==(const TimeSpan&, const TimeSpan&) = default;
};

/// How one rank spends the step.
struct RankTimes {
  double busy = 0;
  double bubble = 0;             // Makespan − busy.
  double gap = 0;                // Idle between its own first start and last end.
  TimeSpan active;               // From its first start to its last end.
  int64_t peak_activations = 0;  // The most that are live at once, in stages × microbatches.
};

struct Simulation {
  double makespan = 0;
  std::vector<RankTimes> ranks;
  /// Start and end of each action, shaped like Schedule::rows(). An idle slot, a message or another
  /// action without compute has no length and stands where the rank passes it.
  std::vector<std::vector<TimeSpan>> spans;

  /// Idle share of all ranks together: the bubble as papers give it.
  double bubble_fraction() const;
};

/// When everything happens if each rank performs its row in order, each action as soon as what it
/// needs is there. Sends and receives take no time of the rank; a message takes Costs::message,
/// whether the table is lowered or not. An overlap starts when both parts can and both results
/// appear at its end. ConfigError for costs that are negative or do not fit the stages, and for a
/// table that never ends, with its cycle.
Simulation simulate(const Schedule& schedule, const Costs& costs);

/// The same of actions that really happened: of spans shaped like the rows, from time 0 on.
Simulation simulation_of(const Schedule& schedule, std::vector<std::vector<TimeSpan>> spans);

/// The most activations that a rank holds at once.
int64_t peak_activations(const Simulation& simulation);

/// From `time` on, `live` activations are held.
struct LiveActivations {
  double time = 0;
  int64_t live = 0;

  friend bool operator==(const LiveActivations&, const LiveActivations&) = default;
};

/// How many activations a rank holds over time: one from the start of each F to the end of its B or
/// W. The entries are where the number changes.
std::vector<LiveActivations> live_activations(const Schedule& schedule,
                                              const Simulation& simulation, GroupRank rank);

}  // namespace tessera

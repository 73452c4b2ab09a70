#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// Costs of actions, in any one unit of time. A list has one entry for all stages or one per stage.
struct Costs {
  std::vector<double> forward{1};      // Time of an F.
  std::vector<double> input_grad{1};   // Time of an I.
  std::vector<double> weight_grad{1};  // Time of a W. A B takes input_grad + weight_grad.
  /// From the end of a task until its result is on the other rank; by the sending stage.
  std::vector<double> message{0};
  double overlap = 1;  // Time of an overlap as a fraction of the sum of its parts.
};

/// latency + bytes / bandwidth, for Costs::message.
double message_time(double latency, double bytes, double bandwidth);

/// From when to when something runs.
struct TimeSpan {
  double start = 0;  // In any one unit of time.
  double end = 0;    // In the same unit; not before start.

  /// In the unit of start and end.
  double length() const { return end - start; }
  friend bool operator==(const TimeSpan&, const TimeSpan&) = default;
};

/// How one rank spends its time in a step.
struct RankTimes {
  double busy = 0;               // Sum of its actions' lengths.
  double bubble = 0;             // Makespan − busy.
  double gap = 0;                // Idle between its own first start and last end.
  TimeSpan active;               // From its first start to its last end.
  int64_t peak_activations = 0;  // In stages × microbatches.
};

/// When every action runs, and what is idle.
struct Simulation {
  double makespan = 0;           // When the last rank ends; the step begins at 0.
  std::vector<RankTimes> ranks;  // By rank of the pipeline.
  /// Start and end of each action, shaped like Schedule::rows(). Idle slots, messages and other
  /// actions without compute have no length and lie at the time when the rank passes them.
  std::vector<std::vector<TimeSpan>> spans;

  /// Idle fraction over all ranks: the bubble as papers define it.
  double bubble_fraction() const;
};

/// The timeline if each rank runs its row in order, each action as soon as its inputs are ready.
/// Sends and receives take no time of the rank; a message takes Costs::message, whether the table
/// is lowered or not. An overlap starts when both parts can, and both results appear at its end.
/// ConfigError for costs that are negative or do not fit the stages, and for a table that would
/// deadlock, with its cycle.
Simulation simulate(const Schedule& schedule, const Costs& costs);

/// The Simulation of measured spans, shaped like the rows, from time 0 on.
Simulation simulation_of(const Schedule& schedule, std::vector<std::vector<TimeSpan>> spans);

/// The peak activations over all ranks.
int64_t peak_activations(const Simulation& simulation);

/// How many activations a rank holds from some time on.
struct LiveActivations {
  double time = 0;   // In the simulation's unit.
  int64_t live = 0;  // In stages × microbatches, until the next entry.

  friend bool operator==(const LiveActivations&, const LiveActivations&) = default;
};

/// The activations that a rank holds over time: one from the start of each F to the end of its B or
/// W. One entry per change.
std::vector<LiveActivations> live_activations(const Schedule& schedule,
                                              const Simulation& simulation, GroupRank rank);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/schedule/kind.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera::schedule::detail {

using TaskId = uint32_t;
inline constexpr TaskId kNoTask = UINT32_MAX;

/// The tasks of a search: F, I and W. A full backward is never better than its two halves.
enum class Phase : uint8_t { kForward, kInputGrad, kWeightGrad };

struct TaskFacts {
  Phase phase = Phase::kForward;
  uint32_t stage = 0;
  uint32_t microbatch = 0;
  uint32_t rank = 0;
  TaskId producer = kNoTask;  // The task whose result it needs.
  TaskId consumer = kNoTask;  // The task, on any rank, that needs its result.
  double duration = 0;
  double latency = 0;  // From its end until its consumer has the result.
};

/// By rank, the tasks in the order in which they run.
using TaskOrder = std::vector<std::vector<TaskId>>;

/// The tasks to order, in flat arrays: every rank's tasks, their costs and dependencies.
struct SearchProblem {
  /// `limit`: activations per rank at any time. Requires costs that fit the stages.
  SearchProblem(const ScheduleShape& shape, StagePlacement placement, const Costs& costs,
                int64_t limit);

  /// The sum of all times: an upper bound for every table.
  double time_of_all() const;

  size_t num_ranks() const { return stages_of.size(); }
  size_t num_stages() const { return rank_of.size(); }
  size_t stages_per_rank() const { return num_stages() / num_ranks(); }
  TaskId task(Phase phase, size_t stage, size_t microbatch) const {
    return static_cast<TaskId>((static_cast<size_t>(phase) * num_stages() + stage) * microbatches +
                               microbatch);
  }

  ScheduleShape shape;
  size_t microbatches;
  size_t limit;
  double overlap;                              // Costs::overlap, only for the bound.
  std::vector<int32_t> rank_of;                // By stage.
  std::vector<std::vector<size_t>> stages_of;  // By rank, ascending.
  std::vector<TaskFacts> tasks;

 private:
  void add(Phase phase, size_t stage, size_t microbatch, const Costs& costs);
  TaskId producer_of(Phase phase, size_t stage, size_t microbatch) const;
  TaskId consumer_of(Phase phase, size_t stage, size_t microbatch) const;
};

/// Lower bounds for all orders of the tasks.
struct SearchBound {
  double longest_span = 0;
  double makespan = 0;
};

SearchBound bound_of(const SearchProblem& problem);

Schedule to_schedule(const SearchProblem& problem, const TaskOrder& order, std::string name);
/// The inverse: splits full backwards and overlaps into their parts.
TaskOrder to_order(const SearchProblem& problem, const Schedule& schedule);

}  // namespace tessera::schedule::detail

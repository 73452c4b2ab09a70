#include "tessera/schedule/internal/search_problem.h"

#include <algorithm>

namespace tessera::schedule::detail {
namespace {

double cost_of(const std::vector<double>& costs, size_t stage) {
  return costs.size() == 1 ? costs[0] : costs[stage];
}

double duration_of(Phase phase, size_t stage, const Costs& costs) {
  if (phase == Phase::kForward) return cost_of(costs.forward, stage);
  return cost_of(phase == Phase::kInputGrad ? costs.input_grad : costs.weight_grad, stage);
}

ActionType type_of(Phase phase) {
  if (phase == Phase::kForward) return ActionType::kForward;
  return phase == Phase::kInputGrad ? ActionType::kInputGrad : ActionType::kWeightGrad;
}

// Uses the times of microbatch 0 for all.
class RankBounds {
 public:
  explicit RankBounds(const SearchProblem& problem) : problem_(problem) {}

  // A rank cannot always compute: at first it waits for the first gradient, with no more forwards
  // than the limit; at the end for the last gradient, with no more backwards than that.
  double span(size_t rank) const {
    const std::vector<size_t>& stages = problem_.stages_of[rank];
    if (problem_.overlap < 1) return problem_.overlap * busy(stages);  // All tasks may overlap.
    const double forward = longest(stages, [&](size_t s) { return time(Phase::kForward, s); });
    const double backward = longest(stages, [&](size_t s) { return backward_time(s); });
    const auto held = static_cast<double>(std::min(problem_.limit, num_forwards(rank)));
    const double first = path_to_first_gradient(stages) - held * forward;
    const double last = round_trip(stages.back()) - (held - 1) * backward;
    const double both = std::max(first, 0.0) + std::max(last, 0.0);
    // The two waits are separate only if a forward is left after the first.
    const bool apart = num_forwards(rank) > problem_.limit;
    return busy(stages) + (apart ? both : std::max({first, last, 0.0}));
  }

  double first_start(size_t rank) const {
    if (problem_.overlap < 1) return 0;
    return forward_path(0, problem_.stages_of[rank].front());
  }

 private:
  const TaskFacts& facts(Phase phase, size_t stage) const {
    return problem_.tasks[problem_.task(phase, stage, 0)];
  }
  double time(Phase phase, size_t stage) const { return facts(phase, stage).duration; }
  double backward_time(size_t stage) const {
    return time(Phase::kInputGrad, stage) + time(Phase::kWeightGrad, stage);
  }
  size_t num_forwards(size_t rank) const {
    return problem_.stages_of[rank].size() * problem_.microbatches;
  }
  double busy(const std::vector<size_t>& stages) const {
    double sum = 0;
    for (const size_t s : stages) sum += time(Phase::kForward, s) + backward_time(s);
    return sum * static_cast<double>(problem_.microbatches);
  }
  // From the end of a stage's forward to the earliest start of its backward.
  double round_trip(size_t stage) const {
    double sum = 0;
    for (size_t s = stage + 1; s < problem_.num_stages(); ++s) {
      sum += facts(Phase::kForward, s - 1).latency + time(Phase::kForward, s) +
             time(Phase::kInputGrad, s) + facts(Phase::kInputGrad, s).latency;
    }
    return sum;
  }
  double path_to_first_gradient(const std::vector<size_t>& stages) const {
    return forward_path(stages.front(), stages.back()) + time(Phase::kForward, stages.back()) +
           round_trip(stages.back());
  }
  // From the start of one stage's forward to the earliest start of another's.
  double forward_path(size_t from, size_t to) const {
    double sum = 0;
    for (size_t s = from; s < to; ++s) {
      sum += time(Phase::kForward, s) + facts(Phase::kForward, s).latency;
    }
    return sum;
  }
  template <class Time>
  static double longest(const std::vector<size_t>& stages, const Time& time) {
    double most = 0;
    for (const size_t stage : stages) most = std::max(most, time(stage));
    return most;
  }

  const SearchProblem& problem_;
};

}  // namespace

SearchProblem::SearchProblem(const ScheduleShape& shape_, StagePlacement placement,
                             const Costs& costs, int64_t limit_)
    : shape(shape_),
      microbatches(static_cast<size_t>(shape.microbatches)),
      limit(static_cast<size_t>(limit_)),
      overlap(costs.overlap),
      rank_of(place_stages(placement, shape.pp, shape.num_stages)),
      stages_of(static_cast<size_t>(shape.pp)) {
  for (size_t stage = 0; stage < num_stages(); ++stage) {
    stages_of[static_cast<size_t>(rank_of[stage])].push_back(stage);
  }
  tasks.reserve(3 * num_stages() * microbatches);
  for (const Phase phase : {Phase::kForward, Phase::kInputGrad, Phase::kWeightGrad}) {
    for (size_t stage = 0; stage < num_stages(); ++stage) {
      for (size_t mb = 0; mb < microbatches; ++mb) add(phase, stage, mb, costs);
    }
  }
}

void SearchProblem::add(Phase phase, size_t stage, size_t microbatch, const Costs& costs) {
  TaskFacts facts{.phase = phase,
                  .stage = static_cast<uint32_t>(stage),
                  .microbatch = static_cast<uint32_t>(microbatch),
                  .rank = static_cast<uint32_t>(rank_of[stage]),
                  .producer = producer_of(phase, stage, microbatch),
                  .consumer = consumer_of(phase, stage, microbatch),
                  .duration = duration_of(phase, stage, costs)};
  if (facts.consumer != kNoTask) {
    const size_t receiver = phase == Phase::kForward ? stage + 1 : stage - 1;
    const bool elsewhere = receiver < num_stages() && rank_of[receiver] != rank_of[stage];
    if (elsewhere) facts.latency = cost_of(costs.message, stage);
  }
  tasks.push_back(facts);
}

double SearchProblem::time_of_all() const {
  double sum = 0;
  for (const TaskFacts& facts : tasks) sum += facts.duration + facts.latency;
  return sum;
}

TaskId SearchProblem::producer_of(Phase phase, size_t stage, size_t microbatch) const {
  const bool last = stage + 1 == num_stages();
  switch (phase) {
    case Phase::kForward:
      return stage == 0 ? kNoTask : task(Phase::kForward, stage - 1, microbatch);
    case Phase::kInputGrad:
      return last ? task(Phase::kForward, stage, microbatch)
                  : task(Phase::kInputGrad, stage + 1, microbatch);
    case Phase::kWeightGrad:
      return task(Phase::kInputGrad, stage, microbatch);
  }
  return kNoTask;
}

TaskId SearchProblem::consumer_of(Phase phase, size_t stage, size_t microbatch) const {
  const bool last = stage + 1 == num_stages();
  if (phase == Phase::kForward && !last) return task(Phase::kForward, stage + 1, microbatch);
  if (phase == Phase::kInputGrad && stage > 0)
    return task(Phase::kInputGrad, stage - 1, microbatch);
  return kNoTask;
}

SearchBound bound_of(const SearchProblem& problem) {
  const RankBounds bounds(problem);
  SearchBound bound;
  for (size_t rank = 0; rank < problem.num_ranks(); ++rank) {
    const double span = bounds.span(rank);
    bound.longest_span = std::max(bound.longest_span, span);
    bound.makespan = std::max(bound.makespan, bounds.first_start(rank) + span);
  }
  return bound;
}

Schedule to_schedule(const SearchProblem& problem, const TaskOrder& order, std::string name) {
  std::vector<ScheduleRow> rows;
  for (const std::vector<TaskId>& tasks : order) {
    ScheduleRow& row = rows.emplace_back();
    row.reserve(tasks.size());
    for (const TaskId id : tasks) {
      const TaskFacts& facts = problem.tasks[id];
      row.emplace_back(Task{.type = type_of(facts.phase),
                            .stage = static_cast<int32_t>(facts.stage),
                            .microbatch = static_cast<int32_t>(facts.microbatch)});
    }
  }
  return {std::move(name), problem.shape, std::move(rows)};
}

TaskOrder to_order(const SearchProblem& problem, const Schedule& schedule) {
  TaskOrder order;
  for (const ScheduleRow& row : schedule.rows()) {
    std::vector<TaskId>& tasks = order.emplace_back();
    const auto add = [&](Phase phase, const Task& task) {
      tasks.push_back(problem.task(phase, static_cast<size_t>(task.stage),
                                   static_cast<size_t>(task.microbatch)));
    };
    for (const Action& action : row) {
      for (const Task& task : action.tasks()) {
        if (task.type == ActionType::kForward) add(Phase::kForward, task);
        if (gives_input_grad(task.type)) add(Phase::kInputGrad, task);
        if (frees_activation(task.type)) add(Phase::kWeightGrad, task);
      }
    }
  }
  return order;
}

}  // namespace tessera::schedule::detail

#include "tessera/schedule/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/schedule/internal/flow.h"
#include "tessera/schedule/internal/stage_grid.h"
#include "tessera/schedule/internal/work_list.h"
#include "tessera/schedule/verify.h"

namespace tessera {
namespace {

using schedule::detail::kNoStage;

// One cost per stage.
std::vector<double> per_stage(const std::vector<double>& values, int64_t num_stages,
                              std::string_view what) {
  const bool fits = values.size() == 1 || static_cast<int64_t>(values.size()) == num_stages;
  TSR_CHECK(fits, what, " has ", values.size(), " values for ", num_stages,
            " stages; give one for all or one per stage");
  for (const double value : values) {
    TSR_CHECK(std::isfinite(value) && value >= 0, what, " of ", value,
              " is not a time; it must be finite and at least 0");
  }
  return values.size() == 1 ? std::vector(static_cast<size_t>(num_stages), values[0]) : values;
}

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule),
        forward_(per_stage(costs.forward, schedule.num_stages(), "forward")),
        input_grad_(per_stage(costs.input_grad, schedule.num_stages(), "input_grad")),
        weight_grad_(per_stage(costs.weight_grad, schedule.num_stages(), "weight_grad")),
        message_(per_stage(costs.message, schedule.num_stages(), "message")),
        overlap_(costs.overlap),
        inputs_(schedule.shape(), kNotYet),
        grads_(schedule.shape(), kNotYet),
        work_(schedule.rows().size()),
        now_(schedule.rows().size(), 0) {
    TSR_CHECK(std::isfinite(overlap_) && overlap_ >= 0, "overlap of ", overlap_,
              " is not a fraction; it must be finite and at least 0");
    spans_.reserve(schedule.rows().size());
    for (const ScheduleRow& row : schedule.rows()) spans_.emplace_back().reserve(row.size());
  }

  Simulation run() && {
    while (const auto rank = work_.next()) advance(*rank);
    for (size_t rank = 0; rank < spans_.size(); ++rank) {
      if (spans_[rank].size() == schedule_.rows()[rank].size()) continue;
      verify(schedule_);  // Throws with the cycle.
      TSR_ASSERT(false, "rank ", rank, " of a verified table waits forever");
    }
    return simulation_of(schedule_, std::move(spans_));
  }

 private:
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();

  void advance(size_t rank) {
    const ScheduleRow& row = schedule_.rows()[rank];
    std::vector<TimeSpan>& spans = spans_[rank];
    while (spans.size() < row.size()) {
      const Action& action = row[spans.size()];
      const double start = std::max(now_[rank], ready_at(action));
      if (start == kNotYet) return;
      const double end = start + length_of(action);
      now_[rank] = end;
      spans.push_back({start, end});
      for (const Task& task : action.tasks()) publish_result(task, end);
    }
  }

  double& arrival(const Task& task) {
    return (schedule::detail::goes_forward(task.type) ? inputs_ : grads_)(task.stage,
                                                                          task.microbatch);
  }

  double ready_at(const Action& action) {
    if (!action.computes()) return 0;
    double ready = 0;
    for (const Task& task : action.tasks()) {
      if (schedule::detail::producer_stage(schedule_, task) != kNoStage) {
        ready = std::max(ready, arrival(task));
      }
    }
    return ready;
  }

  double length_of(const Task& task) const {
    const auto stage = static_cast<size_t>(task.stage);
    switch (task.type) {
      case ActionType::kForward:
        return forward_[stage];
      case ActionType::kInputGrad:
        return input_grad_[stage];
      case ActionType::kWeightGrad:
        return weight_grad_[stage];
      case ActionType::kBackward:
        return input_grad_[stage] + weight_grad_[stage];
      default:
        return 0;
    }
  }
  double length_of(const Action& action) const {
    const auto tasks = action.tasks();
    if (action.type() == ActionType::kOverlap) {
      return overlap_ * (length_of(tasks[0]) + length_of(tasks[1]));
    }
    return action.computes() ? length_of(tasks[0]) : 0;
  }

  // Results are available at once on the same rank, and after the message time on others.
  void publish_result(const Task& task, double end) {
    if (is_send(task.type))
      return deliver(schedule::detail::counterpart(task), end + message_[stage(task)]);
    const int32_t consumer = schedule::detail::consumer_stage(schedule_, task);
    if (!is_compute(task.type) || consumer == kNoStage) return;
    const Task receiver{task.type, consumer, task.microbatch};
    if (!schedule::detail::is_elsewhere(schedule_, task, consumer)) return deliver(receiver, end);
    if (!schedule_.communicates()) deliver(receiver, end + message_[stage(task)]);
  }

  static size_t stage(const Task& task) { return static_cast<size_t>(task.stage); }

  void deliver(const Task& receiver, double time) {
    if (receiver.stage < 0 || receiver.stage >= schedule_.num_stages()) return;
    arrival(receiver) = time;
    work_.wake(static_cast<size_t>(schedule_.rank_of(receiver.stage).value));
  }

  const Schedule& schedule_;
  std::vector<double> forward_;
  std::vector<double> input_grad_;
  std::vector<double> weight_grad_;
  std::vector<double> message_;
  double overlap_;
  schedule::detail::StageGrid<double> inputs_;  // When the input of the stage's forward is ready.
  schedule::detail::StageGrid<double> grads_;   // When the gradient for its backward is ready.
  schedule::detail::WorkList work_;
  std::vector<double> now_;  // By rank.
  std::vector<std::vector<TimeSpan>> spans_;
};

int64_t count(const Action& action, bool (*counts)(ActionType)) {
  return std::ranges::count_if(action.tasks(), [&](const Task& t) { return counts(t.type); });
}

bool makes_activation(ActionType type) {
  return type == ActionType::kForward;
}

bool frees(ActionType type) {
  return frees_activation(type);
}

RankTimes times_of(const ScheduleRow& row, const std::vector<TimeSpan>& spans, double makespan) {
  RankTimes times;
  int64_t live = 0;
  bool started = false;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!row[i].computes()) continue;
    if (!started) times.active.start = spans[i].start;
    started = true;
    times.active.end = spans[i].end;
    times.busy += spans[i].length();
    live += count(row[i], makes_activation);
    times.peak_activations = std::max(times.peak_activations, live);
    live -= count(row[i], frees);
  }
  times.bubble = makespan - times.busy;
  times.gap = times.active.length() - times.busy;
  return times;
}

}  // namespace

double message_time(double latency, double bytes, double bandwidth) {
  TSR_CHECK(latency >= 0 && bytes >= 0 && bandwidth > 0, "a message with latency ", latency, ", ",
            bytes, " bytes and bandwidth ", bandwidth,
            " is invalid; none may be negative, and the bandwidth must be above 0");
  return latency + bytes / bandwidth;
}

double Simulation::bubble_fraction() const {
  double busy = 0;
  for (const RankTimes& rank : ranks) busy += rank.busy;
  const double total = makespan * static_cast<double>(ranks.size());
  return total > 0 ? 1 - busy / total : 0;
}

Simulation simulation_of(const Schedule& schedule, std::vector<std::vector<TimeSpan>> spans) {
  Simulation result;
  for (const std::vector<TimeSpan>& row : spans) {
    if (!row.empty()) result.makespan = std::max(result.makespan, row.back().end);
  }
  result.spans = std::move(spans);
  for (size_t rank = 0; rank < result.spans.size(); ++rank) {
    result.ranks.push_back(times_of(schedule.rows()[rank], result.spans[rank], result.makespan));
  }
  return result;
}

int64_t peak_activations(const Simulation& simulation) {
  return std::ranges::max(simulation.ranks, {}, &RankTimes::peak_activations).peak_activations;
}

Simulation simulate(const Schedule& schedule, const Costs& costs) {
  return Simulator(schedule, costs).run();
}

std::vector<LiveActivations> live_activations(const Schedule& schedule,
                                              const Simulation& simulation, GroupRank rank) {
  std::vector<LiveActivations> curve;
  int64_t live = 0;
  const auto change = [&](double time, int64_t by) {
    if (by == 0) return;
    live += by;
    if (curve.empty() || curve.back().time != time) curve.push_back({time, live});
    curve.back().live = live;
  };
  const ScheduleRow& row = schedule.row(rank);
  const auto& spans = simulation.spans[static_cast<size_t>(rank.value)];
  for (size_t i = 0; i < row.size(); ++i) {
    change(spans[i].start, count(row[i], makes_activation));
    change(spans[i].end, -count(row[i], frees));
  }
  return curve;
}

}  // namespace tessera

#include "tessera/schedule/measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/schedule/internal/flow.h"
#include "tessera/schedule/internal/stage_grid.h"

namespace tessera {
namespace {

using schedule::detail::producer_stage;

/// Measured times by stage.
using Samples = std::vector<std::vector<double>>;

double median(std::vector<double> values) {
  TSR_ASSERT(!values.empty(), "a complete table computes everything on every stage");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

// Per stage; a stage without samples gets the median over all samples, or 0 if there are none.
std::vector<double> medians(const Samples& samples) {
  std::vector<double> known;
  for (const auto& values : samples) {
    if (!values.empty()) known.push_back(median(values));
  }
  const double usual = known.empty() ? 0 : median(known);
  std::vector<double> result;
  for (const auto& values : samples) result.push_back(values.empty() ? usual : median(values));
  return result;
}

class Measuring {
 public:
  Measuring(const Schedule& schedule, const Simulation& simulation)
      : schedule_(schedule),
        simulation_(simulation),
        messages_(stages()),
        made_forward_(schedule.shape(), 0),
        made_grad_(schedule.shape(), 0) {
    samples_.fill(Samples(stages()));
  }

  Costs costs() {
    each_action([&](size_t, const Action& action, const TimeSpan& span) { note(action, span); });
    note_messages();
    Costs costs = compute_costs();
    costs.message = medians(messages_);
    costs.overlap = overlap_of(costs);
    return costs;
  }

 private:
  size_t stages() const { return static_cast<size_t>(schedule_.num_stages()); }

  template <class Visit>
  void each_action(Visit visit) {
    for (size_t rank = 0; rank < schedule_.rows().size(); ++rank) {
      const ScheduleRow& row = schedule_.rows()[rank];
      for (size_t i = 0; i < row.size(); ++i) {
        if (row[i].computes()) visit(rank, row[i], simulation_.spans[rank][i]);
      }
    }
  }

  static size_t index(ActionType type) {
    return static_cast<size_t>(type) - static_cast<size_t>(ActionType::kForward);
  }
  std::vector<double>& times_of(ActionType type, size_t stage) {
    return samples_.at(index(type))[stage];
  }

  // Skips overlaps, which do not show the times of their parts. Every stage also computes each part
  // alone: before the first backward is ready, and after the last forward.
  void note(const Action& action, const TimeSpan& span) {
    const auto tasks = action.tasks();
    if (tasks.size() == 1) {
      times_of(tasks[0].type, static_cast<size_t>(tasks[0].stage)).push_back(span.length());
    }
    for (const Task& task : tasks) {
      if (task.type == ActionType::kForward) made_forward_(task.stage, task.microbatch) = span.end;
      if (gives_input_grad(task.type)) made_grad_(task.stage, task.microbatch) = span.end;
    }
  }

  void note_messages() {
    std::vector<double> free(schedule_.rows().size(), -std::numeric_limits<double>::infinity());
    each_action([&](size_t rank, const Action& action, const TimeSpan& span) {
      if (action.tasks().size() == 1) note_message(action.tasks()[0], free[rank], span.start);
      free[rank] = span.end;
    });
  }

  void note_message(const Task& task, double free, double start) {
    const int32_t maker = producer_stage(schedule_, task);
    if (!schedule::detail::is_elsewhere(schedule_, task, maker)) return;
    auto& made_by = task.type == ActionType::kForward ? made_forward_ : made_grad_;
    const double made = made_by(maker, task.microbatch);
    // Skips messages that the clocks of different hosts make look negative.
    if (made >= free) messages_[static_cast<size_t>(maker)].push_back(std::max(0.0, start - made));
  }

  // A stage may split its backward in all, some or no microbatches.
  Costs compute_costs() {
    Costs costs{.forward = {}, .input_grad = {}, .weight_grad = {}};
    for (size_t stage = 0; stage < stages(); ++stage) {
      const auto& split = times_of(ActionType::kInputGrad, stage);
      const double half = split.empty() ? median(times_of(ActionType::kBackward, stage)) / 2 : 0;
      costs.forward.push_back(median(times_of(ActionType::kForward, stage)));
      costs.input_grad.push_back(split.empty() ? half : median(split));
      costs.weight_grad.push_back(split.empty() ? half
                                                : median(times_of(ActionType::kWeightGrad, stage)));
    }
    return costs;
  }

  double overlap_of(const Costs& costs) {
    std::vector<double> shares;
    each_action([&](size_t, const Action& action, const TimeSpan& span) {
      if (action.type() != ActionType::kOverlap) return;
      double alone = 0;
      for (const Task& task : action.tasks()) {
        const auto stage = static_cast<size_t>(task.stage);
        alone += task.type == ActionType::kForward
                     ? costs.forward[stage]
                     : costs.input_grad[stage] + costs.weight_grad[stage];
      }
      const double share = span.length() / alone;
      if (std::isfinite(share)) shares.push_back(share);
    });
    return shares.empty() ? 1 : median(shares);
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  std::array<Samples, 4> samples_;  // Of F, B, I and W.
  Samples messages_;                // By the stage that sends.
  schedule::detail::StageGrid<double>
      made_forward_;  // When a stage's output was ready, on its own rank.
  schedule::detail::StageGrid<double> made_grad_;  // When its input gradient was ready.
};

/// One value per stage, from one for all stages or one per stage.
std::vector<double> spread(const std::vector<double>& values, int64_t stages) {
  return values.size() == 1 ? std::vector(static_cast<size_t>(stages), values[0]) : values;
}

/// A model of from × to grains: an old stage has `to` of them, a new one `from`.
struct Recut {
  int64_t from;
  int64_t to;

  std::vector<double> times(const std::vector<double>& values) const {
    const std::vector<double> old = spread(values, from);
    std::vector<double> result(static_cast<size_t>(to), 0);
    for (int64_t stage = 0; stage < to; ++stage) {
      for (int64_t grain = stage * from; grain < (stage + 1) * from;) {
        const int64_t end = std::min((grain / to + 1) * to, (stage + 1) * from);
        const double share = static_cast<double>(end - grain) / static_cast<double>(to);
        result[static_cast<size_t>(stage)] += share * old[static_cast<size_t>(grain / to)];
        grain = end;
      }
    }
    return result;
  }

  // That of the old stage in which the new one ends.
  std::vector<double> messages(const std::vector<double>& values) const {
    const std::vector<double> old = spread(values, from);
    std::vector<double> result;
    for (int64_t stage = 0; stage < to; ++stage) {
      result.push_back(old[static_cast<size_t>(((stage + 1) * from - 1) / to)]);
    }
    return result;
  }
};

}  // namespace

Costs measure_costs(const Schedule& schedule, const Simulation& simulation) {
  return Measuring(schedule, simulation).costs();
}

Costs recut(const Costs& costs, int64_t from_stages, int64_t to_stages) {
  TSR_CHECK(from_stages > 0 && to_stages > 0, "a model of ", from_stages,
            " stages cannot be divided into ", to_stages, "; both must be at least 1");
  const Recut cut{from_stages, to_stages};
  return {.forward = cut.times(costs.forward),
          .input_grad = cut.times(costs.input_grad),
          .weight_grad = cut.times(costs.weight_grad),
          .message = cut.messages(costs.message),
          .overlap = costs.overlap};
}

}  // namespace tessera

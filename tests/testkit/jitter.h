#pragma once

#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera::testkit {

/// A simulated run of a compute table: every action takes its cost times 1 ± jitter, uniformly
/// distributed. One cost of each kind per stage, one message time for all.
class JitteryRun {
 public:
  JitteryRun(const Schedule& schedule, Costs costs, double jitter, uint32_t seed = 1)
      : schedule_(schedule),
        costs_(std::move(costs)),
        noise_(1 - jitter, 1 + jitter),
        random_(seed),
        spans_(schedule.rows().size()) {}

  Simulation perform() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < spans_.size(); ++rank) {
        while (spans_[rank].size() < schedule_.rows()[rank].size() && perform_next(rank)) {
          moved = true;
        }
      }
    }
    return simulation_of(schedule_, spans_);
  }

 private:
  using Made = std::tuple<bool, int32_t, int32_t>;  // Whether forward, stage, microbatch.

  bool perform_next(size_t rank) {
    const Action& action = schedule_.rows()[rank][spans_[rank].size()];
    double start = spans_[rank].empty() ? 0 : spans_[rank].back().end;
    double length = 0;
    for (const Task& task : action.tasks()) {
      if (needs_message(task)) {
        const auto maker = ends_.find(maker_of(task));
        if (maker == ends_.end()) return false;
        start = std::max(start, maker->second + delay(task));
      }
      length += cost_of(task);
    }
    spans_[rank].push_back({start, start + length * noise_(random_)});
    for (const Task& task : action.tasks()) {
      const bool forward = task.type == ActionType::kForward;
      if (forward || gives_input_grad(task.type)) {
        ends_[{forward, task.stage, task.microbatch}] = spans_[rank].back().end;
      }
    }
    return true;
  }

  bool needs_message(const Task& task) const {
    if (task.type == ActionType::kForward) return task.stage > 0;
    return gives_input_grad(task.type) && task.stage + 1 < schedule_.num_stages();
  }
  static Made maker_of(const Task& task) {
    const bool forward = task.type == ActionType::kForward;
    return {forward, task.stage + (forward ? -1 : 1), task.microbatch};
  }
  double delay(const Task& task) const {
    const int32_t maker = std::get<1>(maker_of(task));
    return schedule_.rank_of(maker) == schedule_.rank_of(task.stage) ? 0 : costs_.message[0];
  }
  double cost_of(const Task& task) const {
    const auto stage = static_cast<size_t>(task.stage);
    const auto of = [&](const std::vector<double>& times) {
      return times.size() == 1 ? times[0] : times[stage];
    };
    if (task.type == ActionType::kForward) return of(costs_.forward);
    if (task.type == ActionType::kInputGrad) return of(costs_.input_grad);
    if (task.type == ActionType::kWeightGrad) return of(costs_.weight_grad);
    return of(costs_.input_grad) + of(costs_.weight_grad);
  }

  const Schedule& schedule_;
  Costs costs_;
  std::uniform_real_distribution<double> noise_;
  std::mt19937 random_;
  std::vector<std::vector<TimeSpan>> spans_;
  std::map<Made, double> ends_;
};

}  // namespace tessera::testkit

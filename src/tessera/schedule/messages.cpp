#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/schedule/internal/flow.h"
#include "tessera/schedule/internal/lowering.h"
#include "tessera/schedule/internal/stage_grid.h"
#include "tessera/schedule/verify.h"

namespace tessera::schedule::detail {
namespace {

/// Emits the ranks' rows in turn, one action each, and the receive of each send.
class Emitter {
 public:
  Emitter(const Schedule& schedule, const std::vector<ScheduleRow>& rows)
      : schedule_(schedule),
        rows_(rows),
        next_(rows.size(), 0),
        results_(rows.size()),
        inputs_(schedule.shape(), 0),
        grads_(schedule.shape(), 0) {
    for (size_t rank = 0; rank < rows.size(); ++rank) results_[rank].reserve(3 * rows[rank].size());
  }

  std::vector<ScheduleRow> run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t rank = 0; rank < rows_.size(); ++rank) progress = emit_next(rank) || progress;
    }
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      if (next_[rank] == rows_[rank].size()) continue;
      verify(schedule_);  // Throws with the cycle.
      TSR_ASSERT(false, "rank ", rank, " of a verified table waits forever");
    }
    return std::move(results_);
  }

 private:
  bool emit_next(size_t rank) {
    if (next_[rank] == rows_[rank].size()) return false;
    const Action& action = rows_[rank][next_[rank]];
    const auto ready = [this](const Task& task) { return is_ready(task); };
    if (!std::ranges::all_of(action.tasks(), ready)) return false;
    results_[rank].push_back(action);
    ++next_[rank];
    for (const Task& task : action.tasks()) send_result(task, rank);
    return true;
  }

  uint8_t& arrived(const Task& task) {
    return (goes_forward(task.type) ? inputs_ : grads_)(task.stage, task.microbatch);
  }

  bool is_ready(const Task& task) {
    const bool needs = is_compute(task.type) && producer_stage(schedule_, task) != kNoStage;
    return !needs || arrived(task) != 0;
  }

  void send_result(const Task& task, size_t rank) {
    if (!is_compute(task.type)) return;
    const int32_t consumer = consumer_stage(schedule_, task);
    if (consumer == kNoStage) return;
    arrived({task.type, consumer, task.microbatch}) = 1;
    if (!is_elsewhere(schedule_, task, consumer)) return;
    const Task send = send_of(task);
    results_[rank].emplace_back(send);
    const auto peer = static_cast<size_t>(schedule_.rank_of(consumer).value);
    results_[peer].emplace_back(counterpart(send));
  }

  const Schedule& schedule_;
  const std::vector<ScheduleRow>& rows_;
  std::vector<size_t> next_;
  std::vector<ScheduleRow> results_;
  StageGrid<uint8_t> inputs_;
  StageGrid<uint8_t> grads_;
};

/// Defers receives until they are needed.
class Deferral {
 public:
  Deferral(const Schedule& schedule, size_t rank)
      : schedule_(schedule), rank_(static_cast<int64_t>(rank)) {}

  ScheduleRow run(const ScheduleRow& row) {
    for (const Action& action : row) {
      if (is_receive(action.type())) {
        held_.push_back(action.tasks()[0]);
        continue;
      }
      for (const Task& task : action.tasks()) release_for(task);
      result_.push_back(action);
    }
    TSR_ASSERT(held_.empty(), "nobody needs ", to_string(held_.front()));
    return std::move(result_);
  }

 private:
  int64_t peer_of(const Task& message) const {
    return schedule_.rank_of(counterpart(message).stage).value;
  }

  void release_for(const Task& task) {
    if (is_send(task.type)) {
      const int64_t peer = peer_of(task);
      // Of two ranks that exchange messages, the lower one receives first.
      if (rank_ < peer) release([&](const Task& held) { return peer_of(held) == peer; });
    } else if (is_compute(task.type) && task.type != ActionType::kWeightGrad) {
      release([&](const Task& held) { return held == receive_of(task); });
    }
  }

  template <class Wanted>
  void release(const Wanted& wanted) {
    std::erase_if(held_, [&](const Task& held) {
      if (!wanted(held)) return false;
      result_.emplace_back(held);
      return true;
    });
  }

  const Schedule& schedule_;
  int64_t rank_;
  std::vector<Task> held_;
  ScheduleRow result_;
};

}  // namespace

std::vector<ScheduleRow> with_early_receives(const Schedule& schedule,
                                             const std::vector<ScheduleRow>& rows) {
  return Emitter(schedule, rows).run();
}

ScheduleRow with_deferred_receives(const Schedule& schedule, const ScheduleRow& row, size_t rank) {
  return Deferral(schedule, rank).run(row);
}

}  // namespace tessera::schedule::detail

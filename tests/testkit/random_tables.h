#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::testkit {

/// A number below `end`; only inside a property or a generator.
inline size_t any_below(size_t end) {
  return *rc::gen::inRange<size_t>(0, end);
}

/// Stages on ranks in any order, at least one per rank.
inline std::vector<size_t> any_placement(size_t pp) {
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < pp; ++rank) ranks.push_back(rank);
  for (size_t more = any_below(pp + 2); more > 0; --more) ranks.push_back(any_below(pp));
  for (size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[any_below(i)]);
  return ranks;
}

/// A random valid compute table: repeatedly lets any rank do any of its possible tasks.
class RandomPlay {
 public:
  explicit RandomPlay(size_t pp)
      : ranks_(any_placement(pp)),
        microbatches_(static_cast<int32_t>(1 + any_below(4))),
        rows_(pp) {}

  Schedule play() {
    const auto last = static_cast<int32_t>(ranks_.size()) - 1;
    for (int32_t i = 0; i < microbatches_; ++i) ready_.push_back({ActionType::kForward, 0, i});
    while (!ready_.empty()) {
      const size_t at = any_below(ready_.size());
      const Task task = ready_[at];
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
      perform(task, last);
    }
    const ScheduleShape shape{static_cast<int64_t>(rows_.size()), last + 1, microbatches_};
    return {"random", shape, std::move(rows_)};
  }

 private:
  ActionType any_backward() {
    return *rc::gen::arbitrary<bool>() ? ActionType::kBackward : ActionType::kInputGrad;
  }

  void perform(const Task& task, int32_t last) {
    ScheduleRow& row = rows_[ranks_[static_cast<size_t>(task.stage)]];
    if (any_below(8) == 0) row.emplace_back();
    row.emplace_back(task);
    if (task.type == ActionType::kForward) {
      const bool turns = task.stage == last;
      ready_.push_back(turns ? Task{any_backward(), last, task.microbatch}
                             : Task{ActionType::kForward, task.stage + 1, task.microbatch});
    }
    if (task.type == ActionType::kInputGrad) {
      ready_.push_back({ActionType::kWeightGrad, task.stage, task.microbatch});
    }
    if (gives_input_grad(task.type) && task.stage > 0) {
      ready_.push_back({any_backward(), task.stage - 1, task.microbatch});
    }
  }

  std::vector<size_t> ranks_;
  int32_t microbatches_;
  std::vector<ScheduleRow> rows_;
  std::vector<Task> ready_;
};

}  // namespace tessera::testkit

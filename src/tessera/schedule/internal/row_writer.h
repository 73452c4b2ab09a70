#pragma once

#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// Writes a rank's row; counts the microbatches of each stage per direction.
class RowWriter {
 public:
  /// `slots`: the approximate length of the row.
  RowWriter(int32_t num_stages, int32_t slots) : counts_(static_cast<size_t>(num_stages)) {
    row_.reserve(static_cast<size_t>(slots));
  }

  void idle(int32_t slots) {
    for (int32_t i = 0; i < slots; ++i) row_.emplace_back();
  }
  void add(const Task& task) { row_.emplace_back(task); }
  /// Adds the next F, B, I or W of the stage and returns its microbatch. B and I share one count.
  int32_t next(ActionType type, int32_t stage) {
    const int32_t microbatch = counter(type, stage)++;
    row_.emplace_back(type, stage, microbatch);
    return microbatch;
  }
  void next_overlap(int32_t forward_stage, int32_t backward_stage) {
    const Task forward = take(ActionType::kForward, forward_stage);
    row_.push_back(Action::overlap(forward, take(ActionType::kBackward, backward_stage)));
  }
  /// The number of such actions of the stage so far.
  int32_t count(ActionType type, int32_t stage) { return counter(type, stage); }

  ScheduleRow take_row() { return std::move(row_); }

 private:
  struct Counts {
    int32_t forward = 0;
    int32_t backward = 0;
    int32_t weight = 0;
  };

  int32_t& counter(ActionType type, int32_t stage) {
    Counts& counts = counts_[static_cast<size_t>(stage)];
    if (type == ActionType::kForward) return counts.forward;
    return type == ActionType::kWeightGrad ? counts.weight : counts.backward;
  }
  Task take(ActionType type, int32_t stage) {
    return {.type = type, .stage = stage, .microbatch = counter(type, stage)++};
  }

  std::vector<Counts> counts_;
  ScheduleRow row_;
};

}  // namespace tessera::schedule::detail

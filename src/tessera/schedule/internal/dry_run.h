#pragma once

#include <array>
#include <string>
#include <vector>

#include "tessera/schedule/internal/stage_grid.h"
#include "tessera/schedule/internal/work_list.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// Advances every rank along its row as far as waiting allows, without computing anything. Requires
/// a complete table whose rows are each in order (RowCheck).
class DryRun {
 public:
  explicit DryRun(const Schedule& schedule);

  /// ConfigError with the cycle if ranks wait for each other forever.
  void run();

 private:
  /// A rank's position, and which tasks of the action there have completed.
  struct Place {
    size_t column = 0;
    std::array<bool, 2> over{};
  };
  /// The awaited task and the rank that must do it.
  struct Wait {
    Task task;
    size_t rank = 0;
  };

  bool is_finished(size_t rank) const {
    return places_[rank].column == schedule_.rows()[rank].size();
  }
  const Action& head(size_t rank) const { return schedule_.rows()[rank][places_[rank].column]; }
  size_t rank_of(int32_t stage) const {
    return static_cast<size_t>(schedule_.rank_of(stage).value);
  }
  uint8_t& arrived(const Task& task);
  bool is_ready(const Task& task);

  void advance(size_t rank);
  bool finish_head(size_t rank);
  bool finish_compute(const Action& action);
  bool finish_posted(const Task& message);
  bool meet(size_t rank, size_t index);
  void deliver(const Task& receiver);

  Wait wait_of(size_t rank);
  Wait producer_of(const Task& task) const;
  size_t column_of(const Task& task, size_t rank) const;
  std::vector<size_t> cycle();
  std::string describe(size_t rank);

  const Schedule& schedule_;
  std::vector<Place> places_;
  WorkList work_;
  StageGrid<uint8_t> inputs_;  // Whether the input of the stage's forward has arrived.
  StageGrid<uint8_t> grads_;   // Whether the gradient for its backward has arrived.
};

}  // namespace tessera::schedule::detail

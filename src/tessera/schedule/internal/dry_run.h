#pragma once

#include <array>
#include <string>
#include <vector>

#include "tessera/schedule/internal/stage_grid.h"
#include "tessera/schedule/internal/work_list.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// Lets every rank walk its row, without doing anything, as far as waiting allows. Trusts that the
/// table is complete and that each row by itself is in order (RowCheck).
class DryRun {
 public:
  explicit DryRun(const Schedule& schedule);

  /// ConfigError with the cycle where ranks wait for each other forever.
  void run();

 private:
  /// Where a rank stands, and which tasks of that action are over.
  struct Place {
    size_t column = 0;
    std::array<bool, 2> over{};
  };
  /// What somebody waits for, and who has to do it.
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
  StageGrid<uint8_t> inputs_;  // Whether what the stage's forward needs has arrived.
  StageGrid<uint8_t> grads_;   // The same for its backward.
};

}  // namespace tessera::schedule::detail

#pragma once

#include <vector>

#include "tessera/schedule/internal/search_timer.h"

namespace tessera::schedule::detail {

/// Moves the task at `from` in a rank's row to `to`.
struct Move {
  size_t rank = 0;
  size_t from = 0;
  size_t to = 0;
};

/// Improves orders by moving single tasks of the critical path along their rows. Keeps orders
/// within the limit.
class Improver {
 public:
  /// `attempts`: the largest number of orders to try.
  Improver(const SearchProblem& problem, OrderTimer& timer, int64_t attempts)
      : problem_(problem), timer_(timer), bound_(bound_of(problem)), attempts_(attempts) {}

  /// Moves tasks until no move helps, or `most` were tried.
  Score climb(TaskOrder& order, int64_t most);
  /// Repeats a few random moves and a climb while attempts are left and the bound is not reached.
  Score perturb_and_climb(TaskOrder& order);

 private:
  std::vector<Move> moves_of(const TaskOrder& order, const Score& score) const;
  bool try_move(std::vector<TaskId>& row, const Move& move) const;
  bool perturb(TaskOrder& order, const Score& score);
  bool is_best_of_all(const Score& score) const;
  size_t random_below(size_t end);

  const SearchProblem& problem_;
  OrderTimer& timer_;
  SearchBound bound_;
  int64_t attempts_;
  uint64_t random_ = 1;
};

}  // namespace tessera::schedule::detail

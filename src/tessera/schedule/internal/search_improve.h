#pragma once

#include <vector>

#include "tessera/schedule/internal/search_timer.h"

namespace tessera::schedule::detail {

/// Takes the task at `from` out of a rank's row and puts it in at `to`.
struct Move {
  size_t rank = 0;
  size_t from = 0;
  size_t to = 0;
};

/// Makes orders better by moving single tasks along their rows, where they lie on the chain of
/// tasks that makes a rank late. An order that fits the limit goes on fitting it.
class Improver {
 public:
  /// `attempts`: so many orders are tried at most.
  Improver(const SearchProblem& problem, OrderTimer& timer, int64_t attempts)
      : problem_(problem), timer_(timer), bound_(bound_of(problem)), attempts_(attempts) {}

  /// Until no move helps, or `most` were tried.
  Score climb(TaskOrder& order, int64_t most);
  /// Some moves at random and a climb from there, again and again, as long as attempts are left and
  /// the bound is not reached.
  Score shake(TaskOrder& order);

 private:
  std::vector<Move> moves_of(const TaskOrder& order, const Score& score) const;
  bool try_move(std::vector<TaskId>& row, const Move& move) const;
  bool disturb(TaskOrder& order, const Score& score);
  bool is_best_of_all(const Score& score) const;
  size_t random_below(size_t end);

  const SearchProblem& problem_;
  OrderTimer& timer_;
  SearchBound bound_;
  int64_t attempts_;
  uint64_t random_ = 1;
};

}  // namespace tessera::schedule::detail

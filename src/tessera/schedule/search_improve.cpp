#include "tessera/schedule/internal/search_improve.h"

#include <algorithm>

namespace tessera::detail {
namespace {

/// Takes the task at `from` out of a rank's row and puts it in at `to`.
struct Move {
  size_t rank = 0;
  size_t from = 0;
  size_t to = 0;
};

void shift(std::vector<TaskId>& row, size_t from, size_t to) {
  const auto at = [&](size_t place) { return row.begin() + static_cast<std::ptrdiff_t>(place); };
  if (from < to) {
    std::rotate(at(from), at(from + 1), at(to + 1));
  } else {
    std::rotate(at(to), at(from), at(from + 1));
  }
}

/// The moves that might shorten the longest rank of the order that was timed last.
class MoveFinder {
 public:
  MoveFinder(const TaskOrder& order, const SearchProblem& problem, const OrderTimer& timer)
      : order_(order), problem_(problem), timer_(timer), places_(problem.tasks.size()) {
    for (const std::vector<TaskId>& row : order) {
      for (size_t place = 0; place < row.size(); ++place) places_[row[place]] = place;
    }
  }

  // Back from the rank's last task, from each task to the one that it had to wait for. Tasks that
  // follow each other on one rank without a gap are a block: the order inside is what can change.
  std::vector<Move> find(size_t rank) && {
    TaskId task = order_[rank].back();
    while (task != kNoTask) {
      TaskId first = task;
      while (is_after_neighbour(first)) first = timer_.cause(first);
      add_block(problem_.tasks[task].rank, places_[first], places_[task]);
      task = timer_.cause(first);
    }
    return std::move(moves_);
  }

 private:
  bool is_after_neighbour(TaskId task) const {
    const TaskId cause = timer_.cause(task);
    return cause != kNoTask && problem_.tasks[cause].rank == problem_.tasks[task].rank &&
           places_[cause] + 1 == places_[task];
  }

  void add_block(size_t rank, size_t first, size_t last) {
    for (size_t place = first; place < last; ++place) moves_.push_back({rank, last, place});
    for (size_t place = first; place < last; ++place) {
      const Phase phase = problem_.tasks[order_[rank][place]].phase;
      if (phase == Phase::kWeightGrad) add_postponements(rank, place, last);
    }
    for (size_t place = first + 1; place <= last; ++place) moves_.push_back({rank, first, place});
  }

  // Nobody waits for a W: behind the block, in the next gap, at the end.
  void add_postponements(size_t rank, size_t place, size_t block_end) {
    const std::vector<TaskId>& row = order_[rank];
    moves_.push_back({rank, place, block_end});
    size_t gap = block_end + 1;
    while (gap < row.size() && !is_shorter(timer_.end(row[gap - 1]), timer_.start(row[gap]))) ++gap;
    if (gap < row.size()) moves_.push_back({rank, place, gap - 1});
    if (block_end + 1 < row.size()) moves_.push_back({rank, place, row.size() - 1});
  }

  const TaskOrder& order_;
  const SearchProblem& problem_;
  const OrderTimer& timer_;
  std::vector<size_t> places_;  // By task.
  std::vector<Move> moves_;
};

// Whether the task would pass one of the same stage that must or may as well stay on its side.
bool passes_kin(const std::vector<TaskId>& row, const Move& move, const SearchProblem& problem) {
  const TaskFacts& moved = problem.tasks[row[move.from]];
  for (size_t place = std::min(move.from, move.to); place <= std::max(move.from, move.to);
       ++place) {
    const TaskFacts& passed = problem.tasks[row[place]];
    const bool kin = passed.phase == moved.phase || passed.microbatch == moved.microbatch;
    if (place != move.from && passed.stage == moved.stage && kin) return true;
  }
  return false;
}

bool fits_limit(const std::vector<TaskId>& row, const SearchProblem& problem) {
  size_t live = 0;
  for (const TaskId task : row) {
    const Phase phase = problem.tasks[task].phase;
    if (phase == Phase::kForward && ++live > problem.limit) return false;
    if (phase == Phase::kWeightGrad) --live;
  }
  return true;
}

// Performs the move where it keeps the rules that the timer does not see.
bool try_move(std::vector<TaskId>& row, const Move& move, const SearchProblem& problem) {
  if (passes_kin(row, move, problem)) return false;
  shift(row, move.from, move.to);
  if (fits_limit(row, problem)) return true;
  shift(row, move.to, move.from);
  return false;
}

}  // namespace

Score improve(TaskOrder& order, const SearchProblem& problem, OrderTimer& timer, int64_t attempts) {
  Score best = timer.run(order);
  bool better = true;
  while (better) {
    better = false;
    for (const Move& move : MoveFinder(order, problem, timer).find(best.longest_rank)) {
      if (attempts == 0) return best;
      std::vector<TaskId>& row = order[move.rank];
      if (!try_move(row, move, problem)) continue;
      --attempts;
      const Score score = timer.run(order);
      better = score.is_better_than(best);
      if (better) {
        best = score;
        break;
      }
      shift(row, move.to, move.from);
    }
  }
  return best;
}

}  // namespace tessera::detail

#include "tessera/schedule/internal/search_improve.h"

#include <algorithm>

namespace tessera::schedule::detail {
namespace {

void shift(std::vector<TaskId>& row, size_t from, size_t to) {
  const auto at = [&](size_t place) { return row.begin() + static_cast<std::ptrdiff_t>(place); };
  if (from < to) {
    std::rotate(at(from), at(from + 1), at(to + 1));
  } else {
    std::rotate(at(to), at(from), at(from + 1));
  }
}

/// The moves that might let a rank of the last timed order end earlier.
class MoveFinder {
 public:
  MoveFinder(const TaskOrder& order, const SearchProblem& problem, const OrderTimer& timer)
      : order_(order), problem_(problem), timer_(timer), places_(problem.tasks.size()) {
    for (const std::vector<TaskId>& row : order) {
      for (size_t place = 0; place < row.size(); ++place) places_[row[place]] = place;
    }
  }

  // Walks back from the rank's last task, from each task to the one that it waited for. Consecutive
  // tasks of one rank without a gap form a block, inside which the order can change.
  void find(size_t rank) {
    TaskId task = order_[rank].back();
    while (task != kNoTask) {
      TaskId first = task;
      while (is_after_neighbour(first)) first = timer_.cause(first);
      add_block(problem_.tasks[task].rank, places_[first], places_[task]);
      task = timer_.cause(first);
    }
  }

  std::vector<Move> take() { return std::move(moves_); }

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

  // No task waits for a W: moves it behind the block, into the next gap, or to the end.
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

// Whether the task would pass one of the same stage that must, or may as well, stay on its side.
bool passes_same_stage(const std::vector<TaskId>& row, const Move& move,
                       const SearchProblem& problem) {
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

}  // namespace

std::vector<Move> Improver::moves_of(const TaskOrder& order, const Score& score) const {
  MoveFinder finder(order, problem_, timer_);
  finder.find(score.longest_rank);
  if (score.last_rank != score.longest_rank) finder.find(score.last_rank);
  return finder.take();
}

// Makes the move if it keeps the rules that the timer does not check.
bool Improver::try_move(std::vector<TaskId>& row, const Move& move) const {
  if (passes_same_stage(row, move, problem_)) return false;
  shift(row, move.from, move.to);
  if (fits_limit(row, problem_)) return true;
  shift(row, move.to, move.from);
  return false;
}

Score Improver::climb(TaskOrder& order, int64_t most) {
  Score best = timer_.run(order);
  const int64_t left = attempts_ - std::min(most, attempts_);
  bool better = true;
  while (better) {
    better = false;
    for (const Move& move : moves_of(order, best)) {
      if (attempts_ == left) return best;
      std::vector<TaskId>& row = order[move.rank];
      if (!try_move(row, move)) continue;
      --attempts_;
      const Score score = timer_.run(order);
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

Score Improver::perturb_and_climb(TaskOrder& order) {
  constexpr int64_t kClimb = 60;
  Score best = timer_.run(order);
  while (attempts_ > 0 && !is_best_of_all(best)) {
    TaskOrder trial = order;
    const Score before = timer_.run(trial);
    if (!perturb(trial, before)) return best;
    const Score score = climb(trial, kClimb);
    if (best.is_better_than(score)) continue;
    best = score;
    order = std::move(trial);
  }
  return best;
}

// Returns whether there was anything to move.
bool Improver::perturb(TaskOrder& order, const Score& score) {
  constexpr int kMoves = 3;
  const std::vector<Move> moves = moves_of(order, score);
  if (moves.empty()) return false;
  for (int i = 0; i < kMoves; ++i) {
    const Move& move = moves[random_below(moves.size())];
    std::vector<TaskId>& row = order[move.rank];
    --attempts_;
    if (!try_move(row, move)) continue;
    const bool deadlock = !timer_.run(order).is_finite();
    if (deadlock) shift(row, move.to, move.from);
  }
  return true;
}

bool Improver::is_best_of_all(const Score& score) const {
  return !is_shorter(bound_.longest_span, score.longest_span) &&
         !is_shorter(bound_.makespan, score.makespan);
}

// The same sequence in every search.
size_t Improver::random_below(size_t end) {
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  return static_cast<size_t>(random_ >> 33U) % end;
}

}  // namespace tessera::schedule::detail

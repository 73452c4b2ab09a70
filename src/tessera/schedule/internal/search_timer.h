#pragma once

#include <limits>
#include <vector>

#include "tessera/schedule/internal/search_problem.h"

namespace tessera::schedule::detail {

/// Whether a time is shorter by more than rounding.
inline bool is_shorter(double a, double b) {
  return a < b - 1e-9 * b;
}

/// What a search minimizes: first the longest span of a rank, then the makespan; the sum of the
/// spans tells which of two equal tables is nearer to an improvement.
struct Score {
  double longest_span = std::numeric_limits<double>::max();
  double makespan = std::numeric_limits<double>::max();
  double sum_of_spans = std::numeric_limits<double>::max();
  size_t longest_rank = 0;
  size_t last_rank = 0;  // The rank that ends last.

  bool is_finite() const { return makespan < std::numeric_limits<double>::max(); }
  bool is_better_than(const Score& other) const;
};

/// Computes when each task of an order starts and ends, for many orders of one problem.
class OrderTimer {
 public:
  explicit OrderTimer(const SearchProblem& problem) : problem_(problem) {}

  /// The worst score if ranks wait for each other forever.
  Score run(const TaskOrder& order);

  // Of the last run:
  double start(TaskId task) const { return ends_[task] - problem_.tasks[task].duration; }
  double end(TaskId task) const { return ends_[task]; }
  /// The task that determined the start: the previous one on its rank, or its producer.
  TaskId cause(TaskId task) const { return causes_[task]; }

  /// Tasks timed in all runs.
  int64_t steps() const { return steps_; }

 private:
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();

  void advance(const std::vector<TaskId>& row, size_t rank);
  Score score(const TaskOrder& order) const;

  const SearchProblem& problem_;
  std::vector<double> ends_;
  std::vector<TaskId> causes_;
  std::vector<double> now_;        // By rank: the current time.
  std::vector<double> first_;      // By rank: the first start.
  std::vector<size_t> places_;     // By rank: the position in its row.
  std::vector<TaskId> waits_for_;  // By rank; kNoTask if it does not wait.
  std::vector<size_t> ready_;
  int64_t steps_ = 0;
};

}  // namespace tessera::schedule::detail

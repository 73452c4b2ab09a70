#pragma once

#include <limits>
#include <vector>

#include "tessera/schedule/internal/search_problem.h"

namespace tessera::schedule::detail {

/// Whether a time is shorter by more than rounding.
inline bool is_shorter(double a, double b) {
  return a < b - 1e-9 * b;
}

/// What a search makes small: first the longest span of a rank, then the makespan; the sum of the
/// spans tells which of two equal tables is nearer to being shortened.
struct Score {
  double longest_span = std::numeric_limits<double>::max();
  double makespan = std::numeric_limits<double>::max();
  double sum_of_spans = std::numeric_limits<double>::max();
  size_t longest_rank = 0;
  size_t last_rank = 0;  // Whose end the makespan is.

  bool is_finite() const { return makespan < std::numeric_limits<double>::max(); }
  bool is_better_than(const Score& other) const;
};

/// When each task of an order starts and ends. Made for many orders of one problem.
class OrderTimer {
 public:
  explicit OrderTimer(const SearchProblem& problem) : problem_(problem) {}

  /// The worst of all scores where ranks wait for each other forever.
  Score run(const TaskOrder& order);

  // Of the last run:
  double start(TaskId task) const { return ends_[task] - problem_.tasks[task].duration; }
  double end(TaskId task) const { return ends_[task]; }
  /// What the task had to wait for: the one before it on its rank, or its producer.
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
  std::vector<double> now_;        // By rank, as the next three.
  std::vector<double> first_;      // Its first start.
  std::vector<size_t> places_;     // How far it has come.
  std::vector<TaskId> waits_for_;  // kNoTask where it does not wait.
  std::vector<size_t> ready_;
  int64_t steps_ = 0;
};

}  // namespace tessera::schedule::detail

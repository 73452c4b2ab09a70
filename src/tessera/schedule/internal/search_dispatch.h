#pragma once

#include <optional>
#include <queue>
#include <vector>

#include "tessera/schedule/internal/search_problem.h"

namespace tessera::schedule::detail {

/// Target times of each stage's F and I: for microbatch 0 by stage, for each further one `interval`
/// later. Only their order matters. W has no target: it fills gaps.
struct TargetTimes {
  std::vector<double> forward{};
  std::vector<double> input_grad{};
  double interval = 1;

  double of(Phase phase, size_t stage, size_t microbatch) const {
    const double first = phase == Phase::kForward ? forward[stage] : input_grad[stage];
    return first + interval * static_cast<double>(microbatch);
  }
};

struct DispatchRules {
  /// Whether a rank waits for its next task by target time, or takes the first that is ready.
  bool in_order = false;
  /// A W starts in a gap if it ends before the next task is ready, or later by at most this
  /// fraction of its own duration.
  double overrun = 0;
};

/// Orders tasks by list scheduling: a free rank takes the F or I with the earliest target, or a W
/// if it has nothing else to do or no room for the next F. The limit on activations always holds.
class Dispatcher {
 public:
  explicit Dispatcher(const SearchProblem& problem);

  /// Nothing if `in_order` and the limit contradict each other; otherwise it always succeeds.
  std::optional<TaskOrder> run(const TargetTimes& targets, DispatchRules rules);

  /// Tasks placed in all runs.
  int64_t steps() const { return steps_; }

 private:
  /// The next F or I of a stage.
  struct Candidate {
    Phase phase = Phase::kForward;
    size_t stage = 0;
    double target = 0;
    double arrival = 0;  // When its input is ready, as far as known.
  };
  struct RankState {
    double free_at = 0;
    size_t live = 0;              // Activations held.
    std::vector<TaskId> weights;  // Every W whose I was started, in that order.
    size_t weights_done = 0;      // How many of `weights` are done.

    bool has_weight() const { return weights_done < weights.size(); }
  };
  struct Event {
    double time = 0;
    size_t rank = 0;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : rank > other.rank;
    }
  };

  void reset();
  void act(size_t rank, double now);
  TaskId choose(size_t rank, double now);
  void collect_candidates(size_t rank);
  bool has_room(const Candidate& forward, const RankState& state) const;
  TaskId fill(const RankState& state, double now, double next_arrival) const;
  void start(TaskId task, double now);

  size_t next(Phase phase, size_t stage) const;
  TaskId task_of(const Candidate& candidate) const;

  const SearchProblem& problem_;
  std::vector<size_t> stages_after_;  // By stage: the number of later stages on its rank.
  TargetTimes targets_;
  DispatchRules rules_;
  std::vector<double> arrivals_;       // By F and I: when its input is ready.
  std::vector<size_t> forwards_done_;  // By stage.
  std::vector<size_t> input_grads_done_;
  std::vector<RankState> ranks_;
  std::vector<Candidate> candidates_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  TaskOrder order_;
  int64_t steps_ = 0;
};

}  // namespace tessera::schedule::detail

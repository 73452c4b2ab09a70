#include "tessera/schedule/internal/search_dispatch.h"

#include <algorithm>
#include <limits>

namespace tessera::schedule::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Dispatcher::Dispatcher(const SearchProblem& problem)
    : problem_(problem), stages_after_(problem.num_stages()) {
  for (const std::vector<size_t>& stages : problem.stages_of) {
    for (size_t i = 0; i < stages.size(); ++i) stages_after_[stages[i]] = stages.size() - 1 - i;
  }
}

std::optional<TaskOrder> Dispatcher::run(const TargetTimes& targets, DispatchRules rules) {
  targets_ = targets;
  rules_ = rules;
  reset();
  size_t placed = 0;
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    act(event.rank, event.time);
  }
  for (const std::vector<TaskId>& row : order_) placed += row.size();
  steps_ += static_cast<int64_t>(placed);
  if (placed < problem_.tasks.size()) return std::nullopt;
  return std::move(order_);
}

void Dispatcher::reset() {
  const size_t per_phase = problem_.num_stages() * problem_.microbatches;
  arrivals_.assign(2 * per_phase, kNever);
  std::fill_n(arrivals_.begin(), problem_.microbatches, 0);
  forwards_done_.assign(problem_.num_stages(), 0);
  input_grads_done_.assign(problem_.num_stages(), 0);
  ranks_.assign(problem_.num_ranks(), {});
  order_.assign(problem_.num_ranks(), {});
  events_.push({.time = 0, .rank = 0});  // Rank 0 holds stage 0.
}

void Dispatcher::act(size_t rank, double now) {
  if (ranks_[rank].free_at > now) return;  // Another event follows when it is free.
  const TaskId task = choose(rank, now);
  if (task != kNoTask) start(task, now);
}

TaskId Dispatcher::choose(size_t rank, double now) {
  const RankState& state = ranks_[rank];
  collect_candidates(rank);
  double next_arrival = kNever;
  double best_target = kNever;
  TaskId best = kNoTask;
  for (const Candidate& candidate : candidates_) {
    if (candidate.arrival > now) {
      next_arrival = std::min(next_arrival, candidate.arrival);
      continue;
    }
    const bool room = candidate.phase != Phase::kForward || has_room(candidate, state);
    if (candidate.target >= best_target || (!room && !state.has_weight())) continue;
    best_target = candidate.target;
    best = room ? task_of(candidate) : state.weights[state.weights_done];
  }
  return best == kNoTask ? fill(state, now, next_arrival) : best;
}

void Dispatcher::collect_candidates(size_t rank) {
  candidates_.clear();
  const auto add = [&](Phase phase, size_t stage) {
    const size_t microbatch = next(phase, stage);
    candidates_.push_back({.phase = phase,
                           .stage = stage,
                           .target = targets_.of(phase, stage, microbatch),
                           .arrival = arrivals_[problem_.task(phase, stage, microbatch)]});
  };
  for (const size_t stage : problem_.stages_of[rank]) {
    if (input_grads_done_[stage] < forwards_done_[stage]) add(Phase::kInputGrad, stage);
    if (forwards_done_[stage] < problem_.microbatches) add(Phase::kForward, stage);
  }
  if (!rules_.in_order || candidates_.empty()) return;
  candidates_[0] = *std::ranges::min_element(candidates_, {}, &Candidate::target);
  candidates_.resize(1);
}

// Unless tasks are taken in order, a rank leaves room for its later stages. This excludes deadlock:
// consider the latest stage whose forward waits for room. Microbatches beyond it have completed and
// are freed, and the earlier stages left it a place.
bool Dispatcher::has_room(const Candidate& forward, const RankState& state) const {
  const size_t kept_free = rules_.in_order ? 0 : stages_after_[forward.stage];
  return state.live + kept_free < problem_.limit;
}

TaskId Dispatcher::fill(const RankState& state, double now, double next_arrival) const {
  if (!state.has_weight()) return kNoTask;
  const TaskId weight = state.weights[state.weights_done];
  const double duration = problem_.tasks[weight].duration;
  constexpr double kRounding = 1e-9;
  const double late = (rules_.overrun + kRounding) * duration;
  return now + duration <= next_arrival + late ? weight : kNoTask;
}

void Dispatcher::start(TaskId task, double now) {
  const TaskFacts& facts = problem_.tasks[task];
  RankState& state = ranks_[facts.rank];
  const double end = now + facts.duration;
  if (facts.phase == Phase::kForward) {
    ++state.live;
    ++forwards_done_[facts.stage];
    const bool last = facts.stage + 1 == problem_.num_stages();
    const auto own = problem_.task(Phase::kInputGrad, facts.stage, facts.microbatch);
    if (last) arrivals_[own] = end;
  } else if (facts.phase == Phase::kInputGrad) {
    ++input_grads_done_[facts.stage];
    state.weights.push_back(problem_.task(Phase::kWeightGrad, facts.stage, facts.microbatch));
  } else {
    ++state.weights_done;
    --state.live;
  }
  order_[facts.rank].push_back(task);
  state.free_at = end;
  events_.push({end, facts.rank});
  if (facts.consumer == kNoTask) return;
  const double arrival = end + facts.latency;
  arrivals_[facts.consumer] = arrival;
  events_.push({arrival, problem_.tasks[facts.consumer].rank});
}

size_t Dispatcher::next(Phase phase, size_t stage) const {
  return (phase == Phase::kForward ? forwards_done_ : input_grads_done_)[stage];
}

TaskId Dispatcher::task_of(const Candidate& candidate) const {
  return problem_.task(candidate.phase, candidate.stage, next(candidate.phase, candidate.stage));
}

}  // namespace tessera::schedule::detail

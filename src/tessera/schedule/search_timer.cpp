#include "tessera/schedule/internal/search_timer.h"

#include <algorithm>

namespace tessera::schedule::detail {

bool Score::is_better_than(const Score& other) const {
  const auto differ = [](double a, double b) { return is_shorter(a, b) || is_shorter(b, a); };
  if (differ(longest_span, other.longest_span)) return longest_span < other.longest_span;
  if (differ(makespan, other.makespan)) return makespan < other.makespan;
  return is_shorter(sum_of_spans, other.sum_of_spans);
}

Score OrderTimer::run(const TaskOrder& order) {
  ends_.assign(problem_.tasks.size(), kNotYet);
  causes_.resize(problem_.tasks.size());
  now_.assign(order.size(), 0);
  first_.assign(order.size(), kNotYet);
  places_.assign(order.size(), 0);
  waits_for_.assign(order.size(), kNoTask);
  ready_.clear();
  for (size_t rank = order.size(); rank > 0; --rank) ready_.push_back(rank - 1);
  while (!ready_.empty()) {
    const size_t rank = ready_.back();
    ready_.pop_back();
    advance(order[rank], rank);
  }
  return score(order);
}

void OrderTimer::advance(const std::vector<TaskId>& row, size_t rank) {
  for (size_t& place = places_[rank]; place < row.size(); ++place, ++steps_) {
    const TaskId task = row[place];
    const TaskFacts& facts = problem_.tasks[task];
    double start = now_[rank];
    TaskId cause = place > 0 ? row[place - 1] : kNoTask;
    if (facts.producer != kNoTask) {
      if (ends_[facts.producer] == kNotYet) {
        waits_for_[rank] = facts.producer;
        return;
      }
      const TaskFacts& producer = problem_.tasks[facts.producer];
      const bool sent = producer.consumer == task;  // W and the last I have no latency.
      const double arrival = ends_[facts.producer] + (sent ? producer.latency : 0);
      if (arrival > start) {
        start = arrival;
        cause = facts.producer;
      }
    }
    if (place == 0) first_[rank] = start;
    causes_[task] = cause;
    ends_[task] = now_[rank] = start + facts.duration;
    if (facts.consumer == kNoTask) continue;
    const size_t receiver = problem_.tasks[facts.consumer].rank;
    if (waits_for_[receiver] != task) continue;
    waits_for_[receiver] = kNoTask;
    ready_.push_back(receiver);
  }
}

Score OrderTimer::score(const TaskOrder& order) const {
  Score score{.longest_span = 0, .makespan = 0, .sum_of_spans = 0};
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (places_[rank] < order[rank].size()) return {};
    const double span = now_[rank] - first_[rank];
    if (span > score.longest_span) score.longest_rank = rank;
    if (now_[rank] > score.makespan) score.last_rank = rank;
    score.longest_span = std::max(score.longest_span, span);
    score.makespan = std::max(score.makespan, now_[rank]);
    score.sum_of_spans += span;
  }
  return score;
}

}  // namespace tessera::schedule::detail

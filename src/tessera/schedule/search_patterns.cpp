// Times are in ticks, one per F, I or W; a microbatch takes three ticks per stage of a rank. So a
// microbatch may follow the previous one after that many ticks, and if no two F or I of a rank fall
// on the same tick of that interval, the pattern repeats without conflict.
#include "tessera/schedule/internal/search_patterns.h"

#include <algorithm>
#include <cmath>

namespace tessera::schedule::detail {
namespace {

constexpr int kTicksPerStage = 3;

/// How one microbatch passes the stages: ticks from each stage to the next. A leg is one pass
/// through all ranks.
struct Pace {
  int forward_even = 1;  // Forwards on legs 0, 2, …
  int forward_odd = 1;
  int backward_odd = 1;
  int backward_even = 1;
  int forward_turn = 1;  // From one leg to the next.
  int last_turn = 1;     // From the last forward to the first backward.
  int backward_turn = 1;
};

/// When microbatch 0 reaches each stage.
class Passage {
 public:
  Passage(const Pace& pace, const SearchProblem& problem)
      : pace_(pace),
        ranks_(static_cast<int>(problem.num_ranks())),
        legs_(static_cast<int>(problem.stages_per_rank())) {}

  int interval() const { return kTicksPerStage * legs_; }

  int forward(size_t stage) const {
    const int leg = static_cast<int>(stage) / ranks_;
    const int step = leg % 2 == 0 ? pace_.forward_even : pace_.forward_odd;
    return forward_start(leg) + step * (static_cast<int>(stage) % ranks_);
  }

  int backward(size_t stage) const {
    const int leg = static_cast<int>(stage) / ranks_;
    const int step = leg % 2 == 0 ? pace_.backward_even : pace_.backward_odd;
    const int first = forward_start(legs_) - pace_.forward_turn + pace_.last_turn;
    const int ahead = backward_legs(legs_) - backward_legs(leg + 1);
    return first + ahead + step * (ranks_ - 1 - static_cast<int>(stage) % ranks_);
  }

 private:
  static int num_even(int legs) { return (legs + 1) / 2; }
  static int num_odd(int legs) { return legs / 2; }

  // The tick at which the leg starts.
  int forward_start(int leg) const {
    const int steps = num_even(leg) * pace_.forward_even + num_odd(leg) * pace_.forward_odd;
    return leg * pace_.forward_turn + (ranks_ - 1) * steps;
  }
  // The ticks that the backwards of `legs` legs take.
  int backward_legs(int legs) const {
    const int steps = num_even(legs) * pace_.backward_even + num_odd(legs) * pace_.backward_odd;
    return legs * pace_.backward_turn + (ranks_ - 1) * steps;
  }

  Pace pace_;
  int ranks_;
  int legs_;
};

bool is_free_of_conflicts(const Passage& passage, const SearchProblem& problem) {
  for (const std::vector<size_t>& stages : problem.stages_of) {
    uint64_t taken = 0;
    for (const size_t stage : stages) {
      for (const int tick : {passage.forward(stage), passage.backward(stage)}) {
        const uint64_t bit = uint64_t{1} << (tick % passage.interval());
        if ((taken & bit) != 0) return false;
        taken |= bit;
      }
    }
  }
  return true;
}

// The peak activations of a rank in the steady state.
double held_by(const Passage& passage, const SearchProblem& problem) {
  int most = 0;
  for (const std::vector<size_t>& stages : problem.stages_of) {
    int ticks = 0;
    for (const size_t stage : stages) ticks += passage.backward(stage) - passage.forward(stage);
    most = std::max(most, ticks);
  }
  return static_cast<double>(most) / passage.interval();
}

struct Ranked {
  Passage passage;
  double distance;  // From the memory limit.
};

Ranked ranked_by_limit(const Passage& passage, const SearchProblem& problem) {
  const size_t useful = std::min(problem.limit, 2 * problem.num_stages());
  return {passage, std::abs(static_cast<double>(useful) - held_by(passage, problem))};
}

template <class Visit>
void for_each_pace(const Visit& visit) {
  constexpr int kSlowest = 4;
  constexpr int kLongestTurn = 5;
  for (int code = 0; code < kSlowest * kSlowest * kSlowest * kSlowest; ++code) {
    Pace pace{.forward_even = 1 + code % kSlowest,
              .forward_odd = 1 + code / kSlowest % kSlowest,
              .backward_odd = 1 + code / (kSlowest * kSlowest) % kSlowest,
              .backward_even = 1 + code / (kSlowest * kSlowest * kSlowest)};
    for (int turns = 0; turns < kLongestTurn * kLongestTurn * kLongestTurn; ++turns) {
      pace.forward_turn = 1 + turns % kLongestTurn;
      pace.last_turn = 1 + turns / kLongestTurn % kLongestTurn;
      pace.backward_turn = 1 + turns / (kLongestTurn * kLongestTurn);
      visit(pace);
    }
  }
}

// With one stage per rank only the sum of both steps matters: it sets how many forwards a rank is
// ahead of its backwards.
std::vector<Ranked> single_stage_passages(const SearchProblem& problem) {
  std::vector<Ranked> passages;
  for (int steps = 2; steps <= 9; ++steps) {
    for (int turn = 1; turn <= kTicksPerStage; ++turn) {
      const Pace pace{.forward_even = steps - 1, .last_turn = turn};
      passages.push_back(ranked_by_limit(Passage(pace, problem), problem));
    }
  }
  return passages;
}

std::vector<Ranked> multi_stage_passages(const SearchProblem& problem) {
  std::vector<Ranked> passages;
  for_each_pace([&](const Pace& pace) {
    const Passage passage(pace, problem);
    if (!is_free_of_conflicts(passage, problem)) return;
    passages.push_back(ranked_by_limit(passage, problem));
  });
  return passages;
}

TargetTimes targets_of(const Passage& passage, const SearchProblem& problem) {
  TargetTimes targets{.interval = static_cast<double>(passage.interval())};
  for (size_t stage = 0; stage < problem.num_stages(); ++stage) {
    targets.forward.push_back(passage.forward(stage));
    targets.input_grad.push_back(passage.backward(stage));
  }
  return targets;
}

}  // namespace

std::vector<TargetTimes> follow_patterns(const SearchProblem& problem, size_t most) {
  constexpr size_t kMostTicks = 64;  // Per interval, one bit each.
  if (kTicksPerStage * problem.stages_per_rank() > kMostTicks) return {};
  const bool single = problem.stages_per_rank() == 1;
  auto passages = single ? single_stage_passages(problem) : multi_stage_passages(problem);
  std::ranges::stable_sort(passages, {}, &Ranked::distance);
  std::vector<TargetTimes> targets;
  for (size_t i = 0; i < std::min(most, passages.size()); ++i) {
    targets.push_back(targets_of(passages[i].passage, problem));
  }
  return targets;
}

}  // namespace tessera::schedule::detail

// Times are in ticks, which stand for one F, I or W each; a microbatch takes a rank three for each
// of its stages. So a microbatch may follow the one before after that many ticks, and where no two
// F or I of a rank fall on the same tick of that interval, the pattern goes on without a conflict.
#include "tessera/schedule/internal/search_patterns.h"

#include <algorithm>
#include <cmath>

namespace tessera::detail {
namespace {

constexpr int kTicksPerStage = 3;

/// How one microbatch passes the stages: ticks from a stage to the next. A leg is one way through
/// all ranks.
struct Pace {
  int forward_even = 1;  // Forwards on legs 0, 2, …
  int forward_odd = 1;
  int backward_odd = 1;
  int backward_even = 1;
  int forward_turn = 1;  // From a leg to the next.
  int last_turn = 1;     // From the last forward to the first backward.
  int backward_turn = 1;
};

/// When microbatch 0 is where, by stage.
struct Passage {
  std::vector<int> forward;
  std::vector<int> backward;
};

Passage passage_of(const Pace& pace, const SearchProblem& problem) {
  const size_t stages = problem.num_stages();
  const size_t ranks = problem.num_ranks();
  Passage passage{std::vector<int>(stages), std::vector<int>(stages)};
  for (size_t s = 1; s < stages; ++s) {
    const int step = s / ranks % 2 == 0 ? pace.forward_even : pace.forward_odd;
    passage.forward[s] = passage.forward[s - 1] + (s % ranks == 0 ? pace.forward_turn : step);
  }
  passage.backward[stages - 1] = passage.forward[stages - 1] + pace.last_turn;
  for (size_t s = stages - 1; s > 0; --s) {
    const int step = (s - 1) / ranks % 2 == 0 ? pace.backward_even : pace.backward_odd;
    passage.backward[s - 1] = passage.backward[s] + (s % ranks == 0 ? pace.backward_turn : step);
  }
  return passage;
}

int interval_of(const SearchProblem& problem) {
  return kTicksPerStage * static_cast<int>(problem.stages_per_rank());
}

bool is_free_of_conflicts(const Passage& passage, const SearchProblem& problem) {
  const int interval = interval_of(problem);
  for (const std::vector<size_t>& stages : problem.stages_of) {
    uint64_t taken = 0;
    for (const size_t stage : stages) {
      for (const int tick : {passage.forward[stage], passage.backward[stage]}) {
        const uint64_t bit = uint64_t{1} << (tick % interval);
        if ((taken & bit) != 0) return false;
        taken |= bit;
      }
    }
  }
  return true;
}

// The activations that a rank holds in the long run.
double held_by(const Passage& passage, const std::vector<size_t>& stages, int interval) {
  int ticks = 0;
  for (const size_t stage : stages) ticks += passage.backward[stage] - passage.forward[stage];
  return static_cast<double>(ticks) / interval;
}

struct Ranked {
  Passage passage;
  double distance = 0;  // From holding just what the limit allows.
};

double distance_of(const Passage& passage, const SearchProblem& problem) {
  double held = 0;
  for (const std::vector<size_t>& stages : problem.stages_of) {
    held = std::max(held, held_by(passage, stages, interval_of(problem)));
  }
  const size_t useful = std::min(problem.limit, 2 * problem.num_stages());
  return std::abs(static_cast<double>(useful) - held);
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

// With one stage a rank only the sum of both steps counts: it says how many forwards a rank is
// ahead of its backwards.
std::vector<Passage> single_stage_passages(const SearchProblem& problem) {
  std::vector<Passage> passages;
  for (int steps = 2; steps <= 9; ++steps) {
    for (int turn = 1; turn <= kTicksPerStage; ++turn) {
      const Pace pace{.forward_even = steps - 1, .last_turn = turn};
      passages.push_back(passage_of(pace, problem));
    }
  }
  return passages;
}

std::vector<Passage> multi_stage_passages(const SearchProblem& problem, size_t most) {
  std::vector<Ranked> ranked;
  for_each_pace([&](const Pace& pace) {
    Passage passage = passage_of(pace, problem);
    if (!is_free_of_conflicts(passage, problem)) return;
    const double distance = distance_of(passage, problem);
    ranked.push_back({std::move(passage), distance});
  });
  std::ranges::stable_sort(ranked, {}, &Ranked::distance);
  if (ranked.size() > most) ranked.resize(most);
  std::vector<Passage> passages;
  for (Ranked& entry : ranked) passages.push_back(std::move(entry.passage));
  return passages;
}

}  // namespace

std::vector<WishedTimes> follow_patterns(const SearchProblem& problem, size_t most) {
  constexpr int kMostTicks = 64;  // Of an interval, one bit each.
  if (interval_of(problem) > kMostTicks) return {};
  const bool single = problem.stages_per_rank() == 1;
  std::vector<WishedTimes> wishes;
  for (const Passage& passage :
       single ? single_stage_passages(problem) : multi_stage_passages(problem, most)) {
    wishes.push_back({.forward = {passage.forward.begin(), passage.forward.end()},
                      .input_grad = {passage.backward.begin(), passage.backward.end()},
                      .interval = static_cast<double>(interval_of(problem))});
  }
  return wishes;
}

}  // namespace tessera::detail

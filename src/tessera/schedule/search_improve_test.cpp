#include "tessera/schedule/internal/search_improve.h"

#include <gtest/gtest.h>

#include "tessera/schedule/generate.h"
#include "tessera/schedule/internal/search_dispatch.h"
#include "tessera/schedule/internal/search_patterns.h"
#include "tessera/schedule/verify.h"

namespace tessera::schedule::detail {
namespace {

constexpr int64_t kEnough = 100'000;

int64_t peak(const SearchProblem& problem, const TaskOrder& order) {
  int64_t most = 0;
  const Schedule schedule = to_schedule(problem, order, "improved");
  verify(schedule);
  for (const RankTimes& rank : simulate(schedule, {}).ranks) {
    most = std::max(most, rank.peak_activations);
  }
  return most;
}

TEST(Improver, ClimbsFrom1F1BToTheBound) {
  const SearchProblem problem({2, 2, 4}, StagePlacement::kLoop, {}, 2);
  OrderTimer timer(problem);
  TaskOrder order = to_order(problem, generate({ScheduleKind::k1F1B, 2, 4}));
  EXPECT_DOUBLE_EQ(timer.run(order).longest_span, 14);
  const Score score = Improver(problem, timer, kEnough).climb(order, kEnough);
  EXPECT_DOUBLE_EQ(score.longest_span, bound_of(problem).longest_span);
  EXPECT_DOUBLE_EQ(timer.run(order).longest_span, score.longest_span);
  EXPECT_EQ(peak(problem, order), 2);
}

TEST(Improver, ShakesOutOfWhatClimbingCannotLeave) {
  const SearchProblem problem({8, 16, 16}, StagePlacement::kV, {}, 10);
  OrderTimer timer(problem);
  TaskOrder best;
  Score reached;
  for (const TargetTimes& targets : follow_patterns(problem, 120)) {
    auto order = Dispatcher(problem).run(targets, {.in_order = true});
    if (!order || !timer.run(*order).is_better_than(reached)) continue;
    reached = timer.run(*order);
    best = *std::move(order);
  }
  const Score climbed = Improver(problem, timer, kEnough).climb(best, kEnough);
  const Score perturbed = Improver(problem, timer, 8'000).perturb_and_climb(best);
  EXPECT_LT(perturbed.longest_span, climbed.longest_span);
  EXPECT_DOUBLE_EQ(timer.run(best).longest_span, perturbed.longest_span);
  EXPECT_LE(peak(problem, best), 10);
}

TEST(Improver, TriesNoMoreThanItMay) {
  const SearchProblem problem({2, 2, 4}, StagePlacement::kLoop, {}, 2);
  OrderTimer timer(problem);
  TaskOrder order = to_order(problem, generate({ScheduleKind::k1F1B, 2, 4}));
  const TaskOrder before = order;
  Improver(problem, timer, 0).climb(order, kEnough);
  EXPECT_EQ(order, before);
}

}  // namespace
}  // namespace tessera::schedule::detail

#include "tessera/schedule/measure.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tessera/schedule/generate.h"
#include "tests/testkit/jitter.h"
#include "tests/testkit/schedules.h"

namespace tessera {
namespace {

using testkit::table;

// Sums of eighths are exact.
std::vector<double> eighths(int64_t stages, double first) {
  std::vector<double> times;
  for (int64_t i = 0; i < stages; ++i) times.push_back(first + static_cast<double>(i % 5) / 8);
  return times;
}

Costs uneven_costs(int64_t stages) {
  return {.forward = eighths(stages, 1),
          .input_grad = eighths(stages, 1.5),
          .weight_grad = eighths(stages, 0.75),
          .message = eighths(stages, 0.125)};
}

bool splits(ScheduleKind kind) {
  return kind == ScheduleKind::kInterleavedZeroBubble || kind == ScheduleKind::kZBVZeroBubble;
}

TEST(MeasureCosts, UndoesTheSimulationOfEveryFamily) {
  for (const auto kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved1F1B,
                          ScheduleKind::kLoopedBFS, ScheduleKind::kInterleavedZeroBubble,
                          ScheduleKind::kZBVZeroBubble}) {
    for (const int64_t pp : {2, 4}) {
      const Schedule schedule = generate({.kind = kind, .pp = pp, .microbatches = 8});
      const Costs known = uneven_costs(schedule.num_stages());
      const Costs found = measure_costs(schedule, simulate(schedule, known));
      EXPECT_EQ(found.forward, known.forward) << schedule.name();
      for (size_t stage = 0; stage < known.forward.size(); ++stage) {
        EXPECT_EQ(found.input_grad[stage] + found.weight_grad[stage],
                  known.input_grad[stage] + known.weight_grad[stage])
            << schedule.name();
      }
      EXPECT_EQ(found.input_grad == known.input_grad, splits(kind)) << schedule.name();
      EXPECT_EQ(found.overlap, 1);
    }
  }
}

TEST(MeasureCosts, MessagesShowWhereTheirReceiverWaited) {
  for (const auto kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B}) {
    const Schedule schedule = generate({.kind = kind, .pp = 4, .microbatches = 8});
    const Costs known = uneven_costs(4);
    EXPECT_EQ(measure_costs(schedule, simulate(schedule, known)).message, known.message);
  }
}

TEST(MeasureCosts, SimulatingWhatWasFoundGivesTheSameStep) {
  for (const auto kind : {ScheduleKind::k1F1B, ScheduleKind::kInterleaved1F1B,
                          ScheduleKind::kInterleavedZeroBubble, ScheduleKind::kZBVZeroBubble}) {
    const Schedule schedule = generate({.kind = kind, .pp = 4, .microbatches = 12});
    Costs known = uneven_costs(schedule.num_stages());
    known.message = {0.25};
    const Simulation step = simulate(schedule, known);
    const Simulation again = simulate(schedule, measure_costs(schedule, step));
    EXPECT_EQ(again.spans, step.spans) << schedule.name();
  }
}

TEST(MeasureCosts, ABackwardThatIsNeverSplitIsHalved) {
  const Schedule schedule = table({"0F0 0F1 0B0 0B1"});
  const Costs found =
      measure_costs(schedule, simulate(schedule, {.input_grad = {3}, .weight_grad = {1}}));
  EXPECT_EQ(found.input_grad, std::vector<double>{2});
  EXPECT_EQ(found.weight_grad, std::vector<double>{2});
  EXPECT_EQ(found.message, std::vector<double>{0}) << "there are no messages";
}

TEST(MeasureCosts, OverlapsAreComparedWithTheirParts) {
  for (const int64_t pp : {2, 4}) {
    const Schedule schedule =
        generate({.kind = ScheduleKind::kDualPipeV, .pp = pp, .microbatches = 3 * pp});
    Costs known = uneven_costs(2 * pp);
    known.overlap = 0.75;
    const Costs found = measure_costs(schedule, simulate(schedule, known));
    EXPECT_EQ(found.overlap, 0.75);
    EXPECT_EQ(found.forward, known.forward);
  }
}

TEST(MeasureCosts, JitterIsEvenedOut) {
  for (const auto kind : {ScheduleKind::k1F1B, ScheduleKind::kZBVZeroBubble}) {
    const Schedule schedule = generate({.kind = kind, .pp = 4, .microbatches = 64}).without_idle();
    const Costs known{.forward = {2}, .input_grad = {2}, .weight_grad = {1.5}, .message = {0.125}};
    const Simulation step = testkit::JitteryRun(schedule, known, 0.1).perform();
    const Costs found = measure_costs(schedule, step);
    // Four standard deviations of the median of 64.
    for (const double forward : found.forward) EXPECT_NEAR(forward, 2, 0.1);
    for (size_t i = 0; i < found.forward.size(); ++i) {
      EXPECT_NEAR(found.input_grad[i] + found.weight_grad[i], 3.5, 0.2);
      EXPECT_NEAR(found.message[i], 0.125, 1e-9) << "it has no jitter";
    }
    const double simulated = simulate(schedule, found).makespan;
    EXPECT_NEAR(simulated / step.makespan, 1, 0.06) << schedule.name();
  }
}

TEST(MeasureCosts, AnOutlierIsNoCost) {
  const Schedule schedule = generate({.kind = ScheduleKind::kGPipe, .pp = 1, .microbatches = 9});
  auto spans = simulate(schedule, {}).spans;
  for (TimeSpan& span : spans[0]) span = {10 * span.start, 10 * span.end};
  spans[0][3].end = spans[0][3].start + 0.5;
  EXPECT_EQ(measure_costs(schedule, simulation_of(schedule, spans)).forward[0], 10);
}

TEST(Recut, JoinedStagesAddUpAndCutOnesShare) {
  const Costs four{.forward = {1, 2, 3, 4},
                   .input_grad = {2},
                   .weight_grad = {1, 1, 2, 2},
                   .message = {0.1, 0.2, 0.3, 0.4},
                   .overlap = 0.9};
  const Costs two = recut(four, 4, 2);
  EXPECT_EQ(two.forward, (std::vector<double>{3, 7}));
  EXPECT_EQ(two.input_grad, (std::vector<double>{4, 4}));
  EXPECT_EQ(two.message, (std::vector<double>{0.2, 0.4}));
  EXPECT_EQ(two.overlap, 0.9);
  const Costs eight = recut(four, 4, 8);
  EXPECT_EQ(eight.forward, (std::vector<double>{0.5, 0.5, 1, 1, 1.5, 1.5, 2, 2}));
  EXPECT_EQ(recut(four, 4, 4).forward, four.forward);
}

TEST(Recut, TheWorkStaysTheSame) {
  const Costs costs{.forward = {1, 5, 2}};
  for (const int64_t stages : {1, 2, 3, 4, 5, 7, 12}) {
    const auto times = recut(costs, 3, stages).forward;
    EXPECT_NEAR(std::accumulate(times.begin(), times.end(), 0.0), 8, 1e-12) << stages;
  }
}

}  // namespace
}  // namespace tessera

#include "tessera/schedule/simulate.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tests/testkit/schedules.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::table;

struct Times {
  double f = 1;
  double b = 1;
  double w = 1;
};

Costs costs_of(const Times& t) {
  return {.forward = {t.f}, .input_grad = {t.b}, .weight_grad = {t.w}};
}

// The theoretical bubble of a family: makespan − busy, the same on every rank.
using Bubble = std::function<double(int64_t p, const Times&)>;

double whole(int64_t p, const Times& t) {
  return static_cast<double>(p - 1) * (t.f + t.b + t.w);
}

void expect_bubbles(ScheduleKind kind, const std::vector<int64_t>& stages_per_rank,
                    const std::vector<Times>& times, const Bubble& bubble) {
  for (int64_t p = 1; p <= 8; ++p) {
    for (const int64_t v : stages_per_rank) {
      for (int64_t m = 2 * p; m <= 5 * p; m += p) {
        const Schedule schedule =
            generate({.kind = kind, .pp = p, .microbatches = m, .stages_per_rank = v});
        for (const Times& t : times) {
          const Simulation result = simulate(schedule, costs_of(t));
          for (const RankTimes& rank : result.ranks) {
            EXPECT_EQ(rank.busy, static_cast<double>(v * m) * (t.f + t.b + t.w));
            EXPECT_EQ(rank.bubble, bubble(p, t)) << "p " << p << " v " << v << " m " << m;
          }
        }
      }
    }
  }
}

const std::vector<Times> kAnyTimes{{1, 1, 1}, {2, 3, 1}, {1, 2, 3}, {4, 1, 1}};
const std::vector<Times> kEqualTimes{{1, 1, 1}, {3, 3, 3}};

TEST(Simulate, GPipeHasTheBubbleOfTheory) {
  expect_bubbles(ScheduleKind::kGPipe, {1}, kAnyTimes, whole);
}

TEST(Simulate, OneFOneBHasTheBubbleOfTheory) {
  expect_bubbles(ScheduleKind::k1F1B, {1}, kAnyTimes, whole);
}

TEST(Simulate, InterleavedHasTheBubbleOfTheory) {
  expect_bubbles(ScheduleKind::kInterleaved1F1B, {1, 2, 3, 4}, kAnyTimes, whole);
}

TEST(Simulate, LoopedBfsHasTheBubbleOfTheory) {
  expect_bubbles(ScheduleKind::kLoopedBFS, {1, 2, 3, 4}, kAnyTimes, whole);
}

TEST(Simulate, InterleavedZeroBubbleHasTheBubbleOfTheory) {
  expect_bubbles(
      ScheduleKind::kInterleavedZeroBubble, {1, 2, 3, 4}, kEqualTimes,
      [](int64_t p, const Times& t) { return static_cast<double>(p - 1) * (t.f + t.b - t.w); });
}

TEST(Simulate, DualPipeVHasTheBubbleOfTheory) {
  expect_bubbles(ScheduleKind::kDualPipeV, {2}, kEqualTimes, [](int64_t p, const Times& t) {
    return static_cast<double>(p - 1) * ((t.f + t.b + t.w) + (t.b + t.w) - 3 * t.w);
  });
}

TEST(Simulate, ZbvHasNoGap) {
  for (int64_t p = 1; p <= 8; ++p) {
    for (const int64_t m : {2 * p - 1, 2 * p, 3 * p, 4 * p}) {
      const Schedule schedule =
          generate({.kind = ScheduleKind::kZBVZeroBubble, .pp = p, .microbatches = m});
      const Simulation result = simulate(schedule, {});
      for (size_t r = 0; r < result.ranks.size(); ++r) {
        EXPECT_EQ(result.ranks[r].gap, 0) << "p " << p << " m " << m << " rank " << r;
        EXPECT_EQ(result.ranks[r].active.start, static_cast<double>(r));  // The start skew.
      }
      EXPECT_EQ(result.makespan, static_cast<double>(6 * m + p - 1));
    }
  }
}

// The peak activations in theory.
TEST(Simulate, PeaksAreThoseOfTheory) {
  const auto peak = [](ScheduleKind kind, int64_t p, int64_t m, int64_t v, size_t rank) {
    const Schedule s = generate({.kind = kind, .pp = p, .microbatches = m, .stages_per_rank = v});
    return simulate(s, {}).ranks[rank].peak_activations;
  };
  for (int64_t p = 1; p <= 6; ++p) {
    const int64_t m = 4 * p;
    for (int64_t r = 0; r < p; ++r) {
      const auto rank = static_cast<size_t>(r);
      EXPECT_EQ(peak(ScheduleKind::kGPipe, p, m, 1, rank), m);
      EXPECT_EQ(peak(ScheduleKind::k1F1B, p, m, 1, rank), p - r);
      EXPECT_EQ(peak(ScheduleKind::kInterleaved1F1B, p, m, 3, rank), 2 * p + 2 * (p - 1 - r) + 1);
      EXPECT_EQ(peak(ScheduleKind::kLoopedBFS, p, m, 3, rank), 3 * m);
      EXPECT_EQ(peak(ScheduleKind::kZBVZeroBubble, p, m, 2, rank), 2 * p);
      EXPECT_LE(peak(ScheduleKind::kDualPipeV, p, m, 2, rank), 2 * p + 1);
    }
  }
}

TEST(Simulate, AThousandRanksAndMicrobatches) {
  const Schedule schedule =
      generate({.kind = ScheduleKind::k1F1B, .pp = 1024, .microbatches = 1024});
  EXPECT_EQ(simulate(schedule, {}).makespan, 3 * (1024 + 1023));
}

TEST(Simulate, GivesStartAndEndOfEachAction) {
  const Schedule schedule = table({"0F0 0B0", "1F0 . 1I0 1W0"});
  const Simulation result = simulate(
      schedule,
      {.forward = {1, 2}, .input_grad = {3, 4}, .weight_grad = {5, 6}, .message = {10, 20}});
  EXPECT_EQ(result.spans[0], (std::vector<TimeSpan>{{0, 1}, {37, 45}}));
  EXPECT_EQ(result.spans[1], (std::vector<TimeSpan>{{11, 13}, {13, 13}, {13, 17}, {17, 23}}));
  EXPECT_EQ(result.makespan, 45);
  EXPECT_EQ(result.ranks[0].busy, 9);
  EXPECT_EQ(result.ranks[0].gap, 36);
  EXPECT_EQ(result.ranks[1].bubble, 33);
  EXPECT_EQ(result.ranks[1].active, (TimeSpan{11, 23}));
}

// Lowering does not change when compute happens: its messages are the implied ones.
TEST(Simulate, LoweredTablesTakeTheSameTime) {
  for (const ScheduleKind kind : {ScheduleKind::kInterleaved1F1B, ScheduleKind::kDualPipeV}) {
    const Schedule compute = generate({.kind = kind, .pp = 3, .microbatches = 6});
    const Costs costs{.forward = {2}, .message = {1}};
    const Simulation expected = simulate(compute, costs);
    for (const Receives receives : {Receives::kEarly, Receives::kDeferred}) {
      const Simulation lowered = simulate(lower(compute, {.receives = receives}), costs);
      EXPECT_EQ(lowered.makespan, expected.makespan);
      for (size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(lowered.ranks[rank].gap, expected.ranks[rank].gap);
        EXPECT_EQ(lowered.ranks[rank].peak_activations, expected.ranks[rank].peak_activations);
      }
    }
  }
}

TEST(Simulate, AnOverlapStartsWhenBothPartsCan) {
  const Schedule schedule =
      table({"0F0 3F0 (0F1;3B0)OVERLAP_F_B 3F1 3B1 0B0 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"});
  const Simulation result = simulate(schedule, {.message = {1}});
  EXPECT_EQ(result.spans[0][1], (TimeSpan{5, 6}));
  EXPECT_EQ(result.spans[0][2], (TimeSpan{6, 9}));    // The sum of a forward and a backward.
  EXPECT_EQ(result.spans[1][2], (TimeSpan{10, 11}));  // Both results appear at its end.
  const Simulation shorter = simulate(schedule, {.message = {1}, .overlap = 0.5});
  EXPECT_EQ(shorter.spans[0][2], (TimeSpan{6, 7.5}));
}

TEST(Simulate, HoldsActivationsFromForwardToBackward) {
  const Schedule schedule = table({"0F0 0F1 0I0 0W0 0B1"});
  const Simulation result = simulate(schedule, {});
  EXPECT_EQ(live_activations(schedule, result, GroupRank{0}),
            (std::vector<LiveActivations>{{0, 1}, {1, 2}, {4, 1}, {6, 0}}));
  EXPECT_EQ(result.ranks[0].peak_activations, 2);
}

TEST(Simulate, RefusesCostsThatAreNone) {
  const Schedule schedule = table({"0F0 0B0", "1F0 1B0"});
  EXPECT_EQ(message_of<ConfigError>([&] { simulate(schedule, {.forward = {1, 2, 3}}); }),
            "forward has 3 values for 2 stages; give one for all or one per stage");
  EXPECT_EQ(message_of<ConfigError>([&] { simulate(schedule, {.message = {-1}}); }),
            "message of -1 is not a time; it must be finite and at least 0");
  EXPECT_THROW(simulate(schedule, {.forward = {}}), ConfigError);
  EXPECT_THROW(simulate(schedule, {.weight_grad = {std::numeric_limits<double>::infinity()}}),
               ConfigError);
  EXPECT_THROW(simulate(schedule, {.overlap = -1}), ConfigError);
}

TEST(Simulate, RefusesATableThatNeverEnds) {
  EXPECT_NE(message_of<ConfigError>([] {
              simulate(table({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}), {});
            }).find("rank 0 waits at 0B0"),
            std::string::npos);
}

TEST(MessageTime, IsLatencyAndTransfer) {
  EXPECT_EQ(message_time(2, 100, 50), 4);
  EXPECT_THROW(message_time(-1, 1, 1), ConfigError);
  EXPECT_THROW(message_time(1, 1, 0), ConfigError);
}

}  // namespace
}  // namespace tessera

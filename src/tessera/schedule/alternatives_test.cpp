#include "tessera/schedule/alternatives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/schedule/generate.h"
#include "tessera/schedule/verify.h"

namespace tessera {
namespace {

const Alternative* find(const std::vector<Alternative>& others, std::string_view name,
                        int64_t stages) {
  const auto found = std::ranges::find_if(others, [&](const Alternative& other) {
    return other.schedule.name() == name && other.schedule.num_stages() == stages;
  });
  return found == others.end() ? nullptr : &*found;
}

TEST(Alternatives, AreEveryOtherKindQuickestFirst) {
  const Schedule now = generate({.kind = ScheduleKind::k1F1B, .pp = 4, .microbatches = 8});
  const auto others = alternatives(now, {});
  EXPECT_TRUE(std::ranges::is_sorted(others, {}, &Alternative::time));
  EXPECT_EQ(find(others, "1F1B", 4), nullptr);
  for (const char* name : {"GPipe", "ZBH1", "ZBH2", "auto"}) {
    EXPECT_NE(find(others, name, 4), nullptr) << name;
  }
  for (const char* name : {"Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble",
                           "DualPipeV", "VHalf", "VMin", "auto"}) {
    EXPECT_NE(find(others, name, 8), nullptr) << name;
  }
  for (const Alternative& other : others) verify(other.schedule);
}

TEST(Alternatives, DoTheSameWork) {
  const Schedule now = generate({.kind = ScheduleKind::k1F1B, .pp = 4, .microbatches = 8});
  const Costs costs{.forward = {1, 2, 3, 4}, .input_grad = {2}, .weight_grad = {1}};
  const double work = simulate(now, costs).ranks[0].busy + simulate(now, costs).ranks[3].busy;
  for (const Alternative& other : alternatives(now, costs)) {
    double busy = 0;
    for (const RankTimes& rank : other.simulation.ranks) busy += rank.busy;
    EXPECT_NEAR(busy, 2 * work, 1e-9) << other.schedule.name();
  }
}

TEST(Alternatives, ComparedWithThePresentOne) {
  const Schedule now = generate({.kind = ScheduleKind::k1F1B, .pp = 4, .microbatches = 8});
  const auto others = alternatives(now, {});
  const Alternative* gpipe = find(others, "GPipe", 4);
  ASSERT_NE(gpipe, nullptr);
  EXPECT_EQ(gpipe->time, 1) << "the same bubble";
  EXPECT_EQ(gpipe->memory, 2) << "8 activations instead of 4";
  const Alternative* zbv = find(others, "ZBVZeroBubble", 8);
  ASSERT_NE(zbv, nullptr);
  EXPECT_EQ(zbv->memory, 1) << "twice as many of half the size";
  EXPECT_LT(zbv->time, 0.8);
}

TEST(Alternatives, TheSearchKeepsToTheMemoryOfThePresentOne) {
  const Schedule now = generate({.kind = ScheduleKind::k1F1B, .pp = 4, .microbatches = 8});
  const auto others = alternatives(now, {.message = {0.25}});
  for (const int64_t stages : {4, 8}) {
    const Alternative* found = find(others, "auto", stages);
    ASSERT_NE(found, nullptr);
    EXPECT_LE(found->memory, 1);
    EXPECT_LE(found->time, 1);
  }
}

TEST(Alternatives, ALimitLeavesOutWhatNeedsMore) {
  const Schedule now = generate({.kind = ScheduleKind::k1F1B, .pp = 4, .microbatches = 8});
  for (const Alternative& other : alternatives(now, {}, 3)) {
    EXPECT_LE(other.memory, 0.75) << other.schedule.name();
  }
  EXPECT_EQ(find(alternatives(now, {}, 7), "GPipe", 4), nullptr);
  EXPECT_NE(find(alternatives(now, {}, 8), "GPipe", 4), nullptr);
}

TEST(Alternatives, KindsWhoseRulesDoNotHoldAreNotAmongThem) {
  const Schedule now = generate({.kind = ScheduleKind::kGPipe, .pp = 4, .microbatches = 2});
  const auto others = alternatives(now, {});
  EXPECT_EQ(find(others, "1F1B", 4), nullptr) << "it wants 4 microbatches";
  EXPECT_NE(find(others, "auto", 4), nullptr);
}

}  // namespace
}  // namespace tessera

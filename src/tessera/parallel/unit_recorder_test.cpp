#include "tessera/parallel/unit_recorder.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using enum UnitAction;

TEST(UnitRecorder, RecordsSpansInTheOrderOfTheirStart) {
  const auto origin = Clock::now();
  const UnitRecorder recorder = UnitRecorder::recording();
  const UnitLog log = recorder.log_of("a");
  const UnitSpan gather = log.begin(kGather);
  const UnitSpan forward = recorder.log_of("b").begin(kForward);
  std::thread([gather] { gather.end(); }).join();
  forward.end();
  const std::vector<UnitEvent> events = recorder.events(origin, Clock::now());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].unit, "a");
  EXPECT_EQ(events[0].action, kGather);
  EXPECT_EQ(events[1].unit, "b");
  EXPECT_LE(events[0].time.start, events[1].time.start);
  EXPECT_LE(events[0].time.end, events[1].time.end);
}

TEST(UnitRecorder, TheFirstEndCounts) {
  const auto origin = Clock::now();
  const UnitRecorder recorder = UnitRecorder::recording();
  const UnitSpan span = recorder.log_of("a").begin(kReduce);
  span.end();
  const double first = recorder.events(origin, Clock::now())[0].time.end;
  span.end();
  EXPECT_EQ(recorder.events(origin, Clock::now())[0].time.end, first);
}

TEST(UnitRecorder, SpansAreCutAtTheStepsEnds) {
  const UnitRecorder recorder = UnitRecorder::recording();
  const UnitSpan before = recorder.log_of("a").begin(kHeld);
  before.end();
  const UnitSpan open = recorder.log_of("b").begin(kHeld);
  const auto origin = Clock::now();
  const std::vector<UnitEvent> events = recorder.events(origin, origin + std::chrono::seconds(2));
  EXPECT_EQ(events[0].time, (TimeSpan{0, 0}));
  EXPECT_EQ(events[1].time, (TimeSpan{0, 2})) << "what has not ended lasts until the end";
  open.end();
}

TEST(UnitRecorder, ADefaultOneRecordsNothing) {
  const UnitRecorder recorder;
  EXPECT_FALSE(recorder.is_recording());
  recorder.log_of("a").begin(kForward).end();
  EXPECT_TRUE(recorder.events(Clock::now(), Clock::now()).empty());
}

}  // namespace
}  // namespace tessera

#include "tessera/comm/internal/stall_detector.h"

#include <gtest/gtest.h>

namespace tessera {

using namespace comm::detail;

namespace {

using std::chrono::seconds;

TEST(RunTimes, AGapIsAStop) {
  const RunTimes::Clock::time_point start{};
  RunTimes times(seconds(2), start);
  times.note(start + seconds(2));
  EXPECT_FALSE(times.last_stall(start + seconds(4)));
  times.note(start + seconds(9));
  const auto stall = times.last_stall(start + seconds(10));
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->end, start + seconds(9));
  EXPECT_EQ(stall->duration, seconds(7));
}

// Another thread may run before the one that notes.
TEST(RunTimes, AStopIsSeenBeforeItIsNoted) {
  const RunTimes::Clock::time_point start{};
  const RunTimes times(seconds(2), start);
  const auto stall = times.last_stall(start + seconds(5));
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->end, start + seconds(5));
}

}  // namespace
}  // namespace tessera

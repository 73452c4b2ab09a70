#include "tessera/schedule/kind.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

TEST(ScheduleKind, IsFoundByEveryNameInAnyCase) {
  EXPECT_EQ(parse_schedule_kind("1f1b"), ScheduleKind::k1F1B);
  EXPECT_EQ(parse_schedule_kind("Interleaved"), ScheduleKind::kInterleaved1F1B);
  EXPECT_EQ(parse_schedule_kind("INTERLEAVED1F1B"), ScheduleKind::kInterleaved1F1B);
  EXPECT_EQ(parse_schedule_kind("zbv"), ScheduleKind::kZBVZeroBubble);
  EXPECT_EQ(schedule_kind_names().size(), 14);
  for (const std::string& name : schedule_kind_names()) {
    EXPECT_NO_THROW(parse_schedule_kind(name)) << name;
  }
}

TEST(ScheduleKind, NamesTheNearestOne) {
  EXPECT_EQ(testkit::message_of<ConfigError>([] { parse_schedule_kind("dualpipe"); }),
            "no schedule is called 'dualpipe'; known are gpipe, 1f1b, interleaved1f1b, "
            "interleaved, loopedbfs, interleavedzerobubble, zbvzerobubble, zbv, dualpipev, zbh1, "
            "zbh2, vhalf, vmin, auto; did you mean 'dualpipev'?");
  EXPECT_THROW(parse_schedule_kind(""), ConfigError);
}

TEST(ScheduleKind, KnowsItsStages) {
  EXPECT_EQ(default_stages_per_rank(ScheduleKind::kGPipe), 1);
  EXPECT_EQ(default_stages_per_rank(ScheduleKind::kLoopedBFS), 2);
  EXPECT_EQ(default_stages_per_rank(ScheduleKind::kVMin), 2);
  EXPECT_EQ(placement_of(ScheduleKind::kDualPipeV), StagePlacement::kV);
  EXPECT_EQ(placement_of(ScheduleKind::kInterleaved1F1B), StagePlacement::kLoop);
  EXPECT_TRUE(is_generated(ScheduleKind::kDualPipeV));
  EXPECT_FALSE(is_generated(ScheduleKind::kZBH1));
}

TEST(PlaceStages, LoopsAndTurns) {
  EXPECT_EQ(place_stages(StagePlacement::kLoop, 4, 6), (std::vector<int32_t>{0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(place_stages(StagePlacement::kV, 3, 9),
            (std::vector<int32_t>{0, 1, 2, 2, 1, 0, 0, 1, 2}));
}

TEST(PlaceStages, RefusesWhatDoesNotLie) {
  EXPECT_EQ(
      testkit::message_of<ConfigError>([] { place_stages(StagePlacement::kV, 4, 6); }),
      "6 stages cannot be placed in a V on 4 ranks: their number must be a multiple of pp; nearest "
      "are 4 and 8");
  EXPECT_THROW(place_stages(StagePlacement::kLoop, 0, 6), ConfigError);
  EXPECT_THROW(place_stages(StagePlacement::kLoop, 2, 0), ConfigError);
  EXPECT_THROW(place_stages(StagePlacement::kLoop, 2, int64_t{1} << 40), ConfigError);
}

}  // namespace
}  // namespace tessera

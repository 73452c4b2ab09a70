#include "tessera/schedule/schedule.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/schedules.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::table;

TEST(Schedule, FindsWhoHasWhichStage) {
  const Schedule schedule = table({"0F0 3F0 3B0 0B0", "1F0 2F0 2I0 2W0 1B0"});
  EXPECT_EQ(schedule.shape(), (ScheduleShape{.pp = 2, .num_stages = 4, .microbatches = 1}));
  EXPECT_EQ(schedule.rank_of(3), GroupRank{0});
  EXPECT_EQ(schedule.stages_of(GroupRank{1}), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(schedule.is_compute_only());
}

TEST(Schedule, IsPrintedOneLineARank) {
  const Schedule schedule = table({". 0F0 . 0B0"});
  EXPECT_EQ(schedule.to_string(), ". 0F0 . 0B0\n");
  EXPECT_EQ(schedule.without_idle().to_string(), "0F0 0B0\n");
}

TEST(Schedule, RefusesTablesThatAreNone) {
  EXPECT_EQ(message_of<ConfigError>([] { table({"0F0 0B0 1F0", "1F0 1B0"}); }),
            "row 1, column 0: 1F0 computes stage 1, which rank 0 computes, too; a stage must lie "
            "on one rank");
  EXPECT_EQ(message_of<ConfigError>([] { table({"0F0 0B0 1SEND_B0", "1F0 1B0"}); }),
            "row 0, column 2: 1SEND_B0 concerns stage 1, which rank 1 computes; move it to that "
            "row");
  EXPECT_EQ(message_of<ConfigError>([] { table({"0F0 0B0 2F0 2B0 0W0 0W0"}); }),
            "no rank computes stage 1 of 3");
  EXPECT_EQ(message_of<ConfigError>([] { table({"0F0 0B0", "."}); }),
            "row 1 computes no stage; every rank needs one");
  EXPECT_EQ(message_of<ConfigError>([] { table({"0F2000000000 0B0"}); }),
            "row 0, column 0: 0F2000000000: the table has 2 slots, too few for a forward and a "
            "backward of 1 stages × 2000000001 microbatches");
  EXPECT_EQ(message_of<ConfigError>([] { table({"0F0 0B0", "1F0 2000000000B0"}); }),
            "row 1, column 1: 2000000000B0: the table has 4 slots, too few for a forward and a "
            "backward of 2000000001 stages × 1 microbatches");
  EXPECT_EQ(message_of<ConfigError>([] { table({"0F0 0F2147483647"}); }),
            "row 0, column 1: 0F2147483647: microbatches is 2147483648, but must be from 1 to "
            "2147483647");
}

TEST(Schedule, RefusesTablesThatDoNotFitTheirShape) {
  const auto make = [](ScheduleShape shape) {
    return Schedule("x", shape, {testkit::row("0F0 0B0"), testkit::row("1F0 1B0")});
  };
  EXPECT_NO_THROW(make({.pp = 2, .num_stages = 2, .microbatches = 1}));
  EXPECT_EQ(message_of<ConfigError>([&] { make({.pp = 3, .num_stages = 2, .microbatches = 1}); }),
            "the table has 2 rows for 3 ranks; every rank needs one row");
  EXPECT_EQ(message_of<ConfigError>([&] { make({.pp = 2, .num_stages = 1, .microbatches = 1}); }),
            "row 1, column 0: 1F0 is of stage 1, but there are 1, counted from 0");
  EXPECT_THROW(make({.pp = 2, .num_stages = 2, .microbatches = 0}), ConfigError);
  EXPECT_EQ(message_of<ConfigError>([&] { make({.pp = 2, .num_stages = 2, .microbatches = 3}); }),
            "the table has 4 slots, too few for a forward and a backward of 2 stages × 3 "
            "microbatches");
}

}  // namespace
}  // namespace tessera

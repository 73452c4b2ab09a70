#include "tessera/schedule/generate.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

std::string refusal(const ScheduleConfig& config) {
  return message_of<ConfigError>([&] { generate(config); });
}

TEST(Generate, WritesTheFamilies) {
  EXPECT_EQ(generate({.kind = ScheduleKind::kGPipe, .pp = 2, .microbatches = 2}).to_string(),
            "0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1\n");
  EXPECT_EQ(generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 3}).to_string(),
            "0F0 0F1 0B0 0F2 0B1 0B2\n1F0 1B0 1F1 1B1 1F2 1B2\n");
  EXPECT_EQ(generate({.kind = ScheduleKind::kLoopedBFS, .pp = 2, .microbatches = 2}).to_string(),
            "0F0 0F1 2F0 2F1 . . 2B1 2B0 0B1 0B0\n. 1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0\n");
  EXPECT_EQ(
      generate({.kind = ScheduleKind::kZBVZeroBubble, .pp = 1, .microbatches = 1}).to_string(),
      "0F0 1F0 1I0 1W0 0I0 0W0\n");
}

TEST(Generate, RefusesSizesBelowOne) {
  EXPECT_EQ(refusal({.pp = 0, .microbatches = 4}), "pp is 0, but must be at least 1");
  EXPECT_EQ(refusal({.pp = 2, .microbatches = -1}), "microbatches is -1, but must be at least 1");
  EXPECT_EQ(refusal({.pp = 2, .microbatches = 4, .stages_per_rank = -2}),
            "stages per rank is -2, but must be at least 1");
}

TEST(Generate, RefusesTablesThatFillTheMemory) {
  EXPECT_EQ(refusal({.kind = ScheduleKind::kGPipe, .pp = 100'000, .microbatches = 100'000}),
            "pp 100000 × 1 stages per rank × 100000 microbatches is a table of up to "
            "30,000,000,000 actions; the limit is 268,435,456");
  EXPECT_THROW(generate({.pp = int64_t{1} << 62, .microbatches = int64_t{1} << 62}), ConfigError);
}

TEST(Generate, RefusesStagesThatTheFamilyHasNot) {
  EXPECT_EQ(
      refusal({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 4, .stages_per_rank = 2}),
      "1F1B has one stage per rank, not 2; choose Interleaved1F1B or LoopedBFS for more");
  for (const int64_t stages : {1, 3}) {
    for (const ScheduleKind kind : {ScheduleKind::kZBVZeroBubble, ScheduleKind::kDualPipeV}) {
      EXPECT_NE(refusal({.kind = kind, .pp = 2, .microbatches = 12, .stages_per_rank = stages})
                    .find("has exactly 2 stages per rank"),
                std::string::npos);
    }
  }
}

TEST(Generate, RefusesTooFewMicrobatches) {
  EXPECT_EQ(refusal({.kind = ScheduleKind::k1F1B, .pp = 4, .microbatches = 3}),
            "1F1B needs at least as many microbatches as stages: 3 microbatches, 4 stages; raise "
            "microbatches to 4 or choose GPipe");
  EXPECT_THROW(generate({.kind = ScheduleKind::kDualPipeV, .pp = 2, .microbatches = 3}),
               ConfigError);
}

TEST(Generate, RefusesUnevenRounds) {
  EXPECT_EQ(refusal({.kind = ScheduleKind::kInterleaved1F1B, .pp = 4, .microbatches = 9}),
            "Interleaved1F1B needs equal rounds of microbatches: 9 do not divide into 2 rounds "
            "(microbatches / pp, rounded down); nearest are 8 and 10");
  EXPECT_THROW(generate({.kind = ScheduleKind::kInterleavedZeroBubble, .pp = 3, .microbatches = 7}),
               ConfigError);
  EXPECT_NO_THROW(generate({.kind = ScheduleKind::kInterleaved1F1B, .pp = 4, .microbatches = 10}));
  EXPECT_NO_THROW(generate({.kind = ScheduleKind::kInterleaved1F1B, .pp = 4, .microbatches = 3}));
}

TEST(Generate, RefusesSearchedKinds) {
  for (const ScheduleKind kind : {ScheduleKind::kZBH1, ScheduleKind::kZBH2, ScheduleKind::kVHalf,
                                  ScheduleKind::kVMin, ScheduleKind::kAuto}) {
    EXPECT_NE(refusal({.kind = kind, .pp = 2, .microbatches = 4}).find("search"),
              std::string::npos);
  }
}

TEST(MicrobatchSizes, GiveTheFirstOnesMore) {
  EXPECT_EQ(microbatch_sizes(10, 4), (std::vector<int64_t>{3, 3, 2, 2}));
  EXPECT_EQ(microbatch_sizes(3, 4), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_TRUE(microbatch_sizes(0, 4).empty());
  EXPECT_THROW(microbatch_sizes(-1, 4), ConfigError);
  EXPECT_THROW(microbatch_sizes(4, 0), ConfigError);
}

}  // namespace
}  // namespace tessera

#include "tessera/draw/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

const Progress kHalf{.step = 120,
                     .steps = 230,
                     .loss = 2.13449,
                     .validation_loss = 2.301,
                     .tokens_per_s = 8123,
                     .ms = 120.4,
                     .elapsed_s = 60};

int64_t width_of(std::string_view line) {
  return std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
}

TEST(ProgressLine, ShowsAllWhereThereIsRoom) {
  EXPECT_EQ(
      progress_line(kHalf, {.width = 120}),
      "████████████████████▊░░░░░░░░░░░░░░░░░░░  52 %  step 120/230  loss 2.134  val 2.301  8.1k "
      "tok/s  120 ms  55 s left");
}

TEST(ProgressLine, LeavesOutTheLeastWhereItIsNarrow) {
  EXPECT_EQ(progress_line(kHalf, {.width = 80}),
            "██████████▍░░░░░░░░░  52 %  loss 2.134  val 2.301  8.1k tok/s  120 ms  55 s left");
  EXPECT_EQ(progress_line(kHalf, {.width = 60}),
            "█████▋░░░░░  52 %  loss 2.134  8.1k tok/s  120 ms  55 s left");
  EXPECT_EQ(progress_line(kHalf, {.width = 20}), "loss 2.134");
  EXPECT_EQ(progress_line(kHalf, {.width = 2}), "lo");
}

TEST(ProgressLine, NeverWiderThanTheTerminal) {
  for (int64_t width = 1; width < 200; ++width) {
    for (int64_t step = 0; step <= 230; step += 23) {
      Progress progress = kHalf;
      progress.step = step;
      EXPECT_LE(width_of(progress_line(progress, {.width = width})), width);
    }
  }
}

TEST(ProgressLine, IsEmptyAtFirstAndFullAtTheEnd) {
  Progress progress = kHalf;
  progress.step = 0;
  const std::string first = progress_line(progress, {.width = 80});
  EXPECT_TRUE(first.starts_with("░░░░")) << first;
  EXPECT_EQ(first.find("left"), std::string::npos) << "nothing is known yet";
  progress.step = 230;
  const std::string last = progress_line(progress, {.width = 80});
  EXPECT_EQ(last.find("░"), std::string::npos) << last;
  EXPECT_NE(last.find("100 %"), std::string::npos) << last;
}

TEST(ProgressLine, AResumedRunCountsItsOwnStepsForTheTimeLeft) {
  Progress progress = kHalf;
  progress.begin = 100;
  EXPECT_NE(progress_text(progress).find("5:30 left"), std::string::npos)
      << progress_text(progress);
}

TEST(ProgressLine, ColoursOnlyWhereAskedFor) {
  EXPECT_EQ(progress_line(kHalf, {.width = 80}).find('\x1b'), std::string::npos);
  EXPECT_TRUE(progress_line(kHalf, {.width = 80, .color = ColorMode::kTrueColor})
                  .starts_with("\x1b[38;2;0;128;210m█"));
}

TEST(ProgressText, IsWholeAndPlain) {
  EXPECT_EQ(
      progress_text(kHalf),
      "step 120/230 (52 %)  loss 2.134  validation 2.301  8,123 tokens/s  120 ms per step  55 s "
      "left");
}

TEST(ProgressText, StrangeValuesAreShown) {
  Progress progress{.step = 1, .steps = 0, .loss = NAN, .ms = 25'000, .elapsed_s = 25};
  EXPECT_EQ(progress_text(progress),
            "step 1/0 (0 %)  loss nan  0 tokens/s  25.0 s per step  0 s left");
  progress.loss = 12345.678;
  EXPECT_NE(progress_text(progress).find("loss 12345.7"), std::string::npos);
}

TEST(ClockText, SecondsMinutesHours) {
  EXPECT_EQ(clock_text(0), "0 s");
  EXPECT_EQ(clock_text(47.2), "48 s");
  EXPECT_EQ(clock_text(723), "12:03");
  EXPECT_EQ(clock_text(12'000), "3:20:00");
  EXPECT_EQ(clock_text(3'661), "1:01:01");
}

}  // namespace
}  // namespace tessera

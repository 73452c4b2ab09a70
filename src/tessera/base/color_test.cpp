#include "tessera/base/color.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

TEST(Color, TwentyFourGroupsHaveTwentyFourColours) {
  std::set<std::string> seen;
  for (int64_t i = 0; i < 24; ++i) seen.insert(to_hex(group_color(i)));
  EXPECT_EQ(seen.size(), 24U);
}

TEST(Color, TheyDifferOnA256ColourTerminal) {
  std::set<std::string> seen;
  for (int64_t i = 0; i < 24; ++i) seen.insert(on_color("x", group_color(i), ColorMode::k256));
  EXPECT_EQ(seen.size(), 24U);
}

// Dark text of luminance 20/255 needs a contrast of 4.5 (WCAG's threshold for small text).
TEST(Color, DarkTextIsReadableOnAll) {
  for (int64_t i = 0; i < 200; ++i) {
    const Rgb color = group_color(i);
    const double gray = 0.2126 * color.red + 0.7152 * color.green + 0.0722 * color.blue;
    EXPECT_GT(gray, 115) << "group " << i << " " << to_hex(color);
  }
}

TEST(Color, WithoutColourTextStaysPlain) {
  EXPECT_EQ(on_color("7", group_color(0), ColorMode::kNone), "7");
  EXPECT_EQ(in_color("7", group_color(0), ColorMode::kNone), "7");
  EXPECT_EQ(bold("7", ColorMode::kNone), "7");
  EXPECT_EQ(faint("7", ColorMode::kNone), "7");
}

TEST(Color, EscapesAreClosed) {
  EXPECT_EQ(on_color("7", {255, 0, 0}, ColorMode::k256), "\x1b[38;5;16;48;5;196m7\x1b[0m");
  EXPECT_EQ(in_color("7", {255, 0, 0}, ColorMode::k256), "\x1b[38;5;196m7\x1b[0m");
  EXPECT_EQ(in_color("7", {1, 2, 3}, ColorMode::kTrueColor), "\x1b[38;2;1;2;3m7\x1b[0m");
  EXPECT_EQ(on_color("7", {1, 2, 3}, ColorMode::kTrueColor),
            "\x1b[38;2;20;20;20;48;2;1;2;3m7\x1b[0m");
  EXPECT_EQ(bold("7", ColorMode::k256), "\x1b[1m7\x1b[0m");
}

}  // namespace
}  // namespace tessera

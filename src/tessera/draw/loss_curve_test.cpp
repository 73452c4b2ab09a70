#include "tessera/draw/loss_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

int64_t width_of(std::string_view line) {
  return std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
}

LossCurve falling(int64_t steps) {
  CurveSeries training{"training", {}};
  CurveSeries validation{"validation", {}};
  for (int64_t step = 0; step < steps; ++step) {
    const auto x = static_cast<double>(step);
    training.points.push_back({x, 1.5 + 4 * std::exp(-x * 5 / static_cast<double>(steps))});
    if (step % 50 == 49) validation.points.push_back({x, training.points.back().y + 0.25});
  }
  return {.series = {training, validation}};
}

TEST(LossCurveTerminal, ASmallOneInFull) {
  const LossCurve curve{
      .series = {{"training", {{0, 4}, {1, 2}, {2, 1}, {3, 1}}}, {"validation", {{3, 2}}}}};
  EXPECT_EQ(draw_terminal(curve, {.width = 24}, 8),
            "   loss   ⠒⠒ training\n"
            "4 ┤⠙⠲⣄⡀\n"
            "  │   ⠙⠲⣄⡀\n"
            "2 ┤      ⠙⠦⢤⣀⡀         ●\n"
            "  │          ⠉⠙⠲⠤⠤⠤⠤⠤⠤⠤⠤\n"
            "0 ┤\n"
            "  └┬────────────────────\n"
            "   0                step\n");
}

TEST(LossCurveTerminal, LinesFitAnyWidthAndHeight) {
  for (const int64_t width : {40, 60, 80, 120, 200}) {
    for (const int64_t height : {8, 12, 16, 30}) {
      const std::string text = draw_terminal(falling(230), {.width = width}, height);
      const auto lines = split(text, '\n');
      EXPECT_EQ(std::ssize(lines), height + 1) << "the last ends, too";
      for (const auto line : lines) EXPECT_LE(width_of(line), width) << line;
    }
  }
}

TEST(LossCurveTerminal, AxesHaveRoundNumbers) {
  const std::string text = draw_terminal(falling(230), {.width = 80});
  for (const char* level : {"1 ┤", "2 ┤", "3 ┤", "4 ┤", "5 ┤", "6 ┤"}) {
    EXPECT_NE(text.find(level), std::string::npos) << level << "\n" << text;
  }
  EXPECT_NE(text.find("0         "), std::string::npos) << text;
  EXPECT_NE(text.find(" 200 "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("step\n")) << text;
}

TEST(LossCurveTerminal, TheLegendSaysTheLastValues) {
  const LossCurve curve{
      .series = {{"training", {{0, 4}, {1, 2.13449}}}, {"validation", {{1, 2.5}}}}};
  const std::string text = draw_terminal(curve, {.width = 80});
  EXPECT_NE(text.find("training 2.134   ● validation 2.5"), std::string::npos) << text;
  EXPECT_EQ(count(text, "●"), 2U) << "legend and point";
}

TEST(LossCurveTerminal, TheLineFallsFromLeftToRight) {
  const std::string text = draw_terminal(falling(400), {.width = 60});
  const auto lines = split(text, '\n');
  const auto first_dot = [&](size_t line) {
    return width_of(lines[line].substr(0, lines[line].find("\xE2\xA0")));
  };
  EXPECT_LT(first_dot(3), first_dot(8)) << text;
}

TEST(LossCurveTerminal, ColoursOnlyWhereAskedFor) {
  EXPECT_EQ(draw_terminal(falling(100), {.width = 80}).find('\x1b'), std::string::npos);
  const std::string text =
      draw_terminal(falling(100), {.width = 80, .color = ColorMode::kTrueColor});
  EXPECT_NE(text.find("\x1b[38;2;213;94;0m●"), std::string::npos);
}

TEST(LossCurveTerminal, ALossThatRanAwayLeavesAGap) {
  LossCurve curve = falling(200);
  for (size_t i = 60; i < 140; ++i) curve.series[0].points[i].y = i % 2 == 0 ? NAN : INFINITY;
  const std::string text = draw_terminal(curve, {.width = 80});
  EXPECT_NE(text.find("training 1.5"), std::string::npos) << text;
}

TEST(LossCurveTerminal, FewPointsOrNone) {
  for (const LossCurve& curve :
       {LossCurve{}, LossCurve{.series = {{"training", {}}}},
        LossCurve{.series = {{"training", {{0, 3}}}}},
        LossCurve{.series = {{"training", {{0, NAN}}}, {"validation", {{0, NAN}}}}}}) {
    EXPECT_EQ(split(draw_terminal(curve, {.width = 80}), '\n').size(), 17U);
    EXPECT_TRUE(draw_svg(curve, "t", "s").ends_with("</svg>\n"));
  }
}

TEST(LossCurveTerminal, TooFewLinesAreRefused) {
  EXPECT_NE(testkit::message_of<ConfigError>([] { draw_terminal({}, {}, 7); }).find("at least 8"),
            std::string::npos);
}

TEST(LossCurveSvg, HasALineAndMarks) {
  const std::string svg = draw_svg(falling(230), "a < b", "s & t");
  EXPECT_EQ(count(svg, "<path class=\"line series0\""), 2U) << "legend and curve";
  EXPECT_EQ(count(svg, "<circle class=\"series1\""), 5U) << "legend and points";
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("s &amp; t"), std::string::npos);
  EXPECT_NE(svg.find("@media screen and (prefers-color-scheme: dark)"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(LossCurveSvg, ManyPointsAreThinned) {
  EXPECT_LT(draw_svg(falling(100'000), "t", "s").size(), 200'000U);
}

TEST(LossCurveSvg, ALossThatRanAwayLeavesAGap) {
  LossCurve curve = falling(200);
  curve.series[0].points[100].y = NAN;
  const std::string svg = draw_svg(curve, "t", "s");
  const size_t at = svg.rfind("line series0");
  EXPECT_EQ(count(svg.substr(at, svg.find("/>", at) - at), "M"), 2U);
}

}  // namespace
}  // namespace tessera

#include "tessera/draw/unit_timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/testkit/trace.h"

namespace tessera {
namespace {

using nlohmann::json;
using enum UnitAction;

// Two units in 100 ms: gathered, computed, freed, gathered again, computed, reduced.
UnitRecord two_units() {
  return {.step = 3,
          .rank = GlobalRank{1},
          .seconds = 0.1,
          .events = {{"a", kGather, {0, 0.01}},
                     {"a", kWait, {0, 0.01}},
                     {"b<&", kGather, {0.01, 0.02}},
                     {"a", kHeld, {0.01, 0.03}},
                     {"a", kForward, {0.01, 0.03}},
                     {"b<&", kHeld, {0.02, 0.06}},
                     {"b<&", kForward, {0.03, 0.04}},
                     {"a", kGather, {0.04, 0.05}},
                     {"b<&", kBackward, {0.04, 0.06}},
                     {"a", kHeld, {0.05, 0.08}},
                     {"a", kBackward, {0.06, 0.08}},
                     {"b<&", kReduce, {0.06, 0.07}},
                     {"a", kReduce, {0.08, 0.1}},
                     {"a", kWait, {0.08, 0.1}}}};
}

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(UnitTimeline, HasARowPerUnitAndOneForWhatComputes) {
  const UnitTimeline timeline = unit_timeline(two_units());
  EXPECT_DOUBLE_EQ(timeline.end, 100);
  ASSERT_EQ(timeline.units.size(), 2U);
  EXPECT_EQ(timeline.units[0].name, "a");
  EXPECT_EQ(timeline.units[1].name, "b<&");
  EXPECT_EQ(timeline.units[0].events.size(), 7U);
  EXPECT_EQ(timeline.compute.events.size(), 6U) << "four passes, two waits";
}

TEST(UnitTimeline, MemoryIsBehindWhatComputes) {
  const UnitRow row = unit_timeline(two_units()).units[0];
  EXPECT_EQ(row.events.front().action, kHeld);
  EXPECT_EQ(row.events.back().action, kBackward);
}

// Two products, beside which keys are exchanged.
UnitRecord exchanges() {
  return {.seconds = 0.1,
          .events = {{"a", kExchange, {0, 0.05}},
                     {"a", kAttend, {0.01, 0.04}},
                     {"a", kWait, {0.04, 0.05}},
                     {"a", kAttend, {0.05, 0.09}}}};
}

TEST(UnitTimeline, ExchangesHaveARowBesideWhatComputes) {
  const UnitTimeline timeline = unit_timeline(exchanges());
  EXPECT_EQ(timeline.compute.events.size(), 3U) << "two products and a wait";
  EXPECT_EQ(timeline.exchange.events.size(), 1U);
  ASSERT_EQ(timeline.units.size(), 1U);
  EXPECT_EQ(timeline.units[0].events.size(), 2U);
  const std::string text = draw_terminal(timeline, {.width = 19});
  EXPECT_EQ(text.substr(0, text.find("|0")),
            "compute  .AAAwAAAA.\n"
            "exchange EEEEE     \n"
            "a         AAA AAAA \n"
            "         ")
      << text;
  EXPECT_EQ(text.find("gather"), std::string::npos) << "only actions that are shown";
  const std::string svg = draw_svg(timeline, "", "");
  EXPECT_NE(svg.find("exchange in flight: 0.00 to 50.00 ms"), std::string::npos);
  EXPECT_NE(svg.find("70.0 ms"), std::string::npos) << "attention of the unit";
}

TEST(UnitTimeline, IsInOrderOfTimeWhateverTheRecordIs) {
  UnitRecord record = two_units();
  std::ranges::reverse(record.events);
  EXPECT_EQ(unit_timeline(record).units[0].name, "a");
}

TEST(UnitTerminal, ShowsTheLifeOfEachUnit) {
  const std::string text = draw_terminal(unit_timeline(two_units()), {.width = 28});
  EXPECT_EQ(text.substr(0, text.find("|0")),
            "compute wwFFFFFFBBBBBBBBwwww\n"
            "a       GGFFFF  GG==BBBBRRRR\n"
            "b<&       GG==FFBBBBRR      \n"
            "        ")
      << text;
  EXPECT_NE(text.find("G gather in flight"), std::string::npos) << text;
}

TEST(UnitTerminal, WhatIsShorterThanACharacterIsShown) {
  UnitRecord record = two_units();
  record.events.push_back({"c", kGather, {0.0875, 0.0875001}});
  EXPECT_NE(draw_terminal(unit_timeline(record), {.width = 28}).find("G  \n"), std::string::npos);
}

TEST(UnitTerminal, ShortWaitsAreNotExaggerated) {
  UnitRecord record = two_units();
  record.events.push_back({"b<&", kWait, {0.0505, 0.051}});
  EXPECT_EQ(draw_terminal(unit_timeline(record), {.width = 28}).substr(0, 28),
            "compute wwFFFFFFBBBBBBBBwwww");
}

TEST(UnitTerminal, ColoursReplaceLetters) {
  const std::string text =
      draw_terminal(unit_timeline(two_units()), {.width = 28, .color = ColorMode::kTrueColor});
  EXPECT_EQ(text.find("GG"), std::string::npos);
  EXPECT_NE(text.find('\x1b'), std::string::npos);
}

TEST(UnitTerminal, ManyUnitsDoNotFit) {
  UnitRecord record{.seconds = 1};
  for (int i = 0; i < 65; ++i) record.events.push_back({std::to_string(i), kForward, {0, 1}});
  EXPECT_FALSE(fits_terminal(unit_timeline(record)));
  record.events.pop_back();
  EXPECT_TRUE(fits_terminal(unit_timeline(record)));
}

TEST(UnitSvg, HasABlockPerEvent) {
  const std::string svg = draw_svg(unit_timeline(two_units()), "Step <3>", "");
  EXPECT_EQ(count(svg, "<title>"), 14U + 4) << "a pass is also in the row of what computes";
  EXPECT_EQ(count(svg, "class=\"held\" x"), 3U + 1) << "and in the legend";
  EXPECT_NE(svg.find("Step &lt;3&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("b<&"), std::string::npos);
  EXPECT_NE(svg.find("waits 30.0 %"), std::string::npos);
}

TEST(UnitSvg, AnEmptyStepIsDrawn) {
  EXPECT_NE(draw_svg(unit_timeline({.seconds = 1e-9}), "", "").find("</svg>"), std::string::npos);
}

TEST(UnitTrace, HasAProcessPerRankAndArrangesWhatOverlaps) {
  UnitRecord other = two_units();
  other.rank = GlobalRank{0};
  std::ostringstream out;
  write_unit_trace(std::vector{other, two_units()}, out);
  const json events = testkit::checked_trace(out.str());
  size_t spans = 0;
  double most_held = 0;
  for (const json& event : events) {
    if (event["ph"] == "X") ++spans;
    if (event["ph"] == "C") {
      most_held = std::max(most_held, event["args"]["gathered buffers in memory"].get<double>());
    }
  }
  EXPECT_EQ(spans, 2U * (14 - 2 + 6)) << "without the waits of the units, with those of compute";
  EXPECT_EQ(most_held, 2);
}

}  // namespace
}  // namespace tessera

#include "tessera/draw/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tessera/base/text.h"
#include "tessera/draw/timeline_page.h"
#include "tessera/draw/timeline_svg.h"
#include "tessera/draw/timeline_terminal.h"
#include "tessera/draw/timeline_trace.h"
#include "tessera/schedule/generate.h"
#include "tests/testkit/trace.h"

namespace tessera {
namespace {

using nlohmann::json;

Timeline timeline_of(ScheduleKind kind, int64_t pp, int64_t microbatches, const Costs& costs = {}) {
  const Schedule schedule = generate({.kind = kind, .pp = pp, .microbatches = microbatches});
  return {schedule, simulate(schedule, costs)};
}

ScheduleRow row(std::string_view text) {
  ScheduleRow actions;
  for (const auto action : split(text, ' ')) actions.push_back(parse_action(action));
  return actions;
}

// Two stages on one rank, with an overlap.
Timeline overlapping() {
  const Schedule schedule("mine", {.pp = 1, .num_stages = 2, .microbatches = 2},
                          {row("0F0 1F0 (0F1;1B0)OVERLAP_F_B 0B0 1F1 1B1 0B1")});
  return {schedule, simulate(schedule, {})};
}

std::vector<Timeline> one(Timeline timeline) {
  std::vector<Timeline> timelines;
  timelines.push_back(std::move(timeline));
  return timelines;
}

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::vector<std::string> names_of(const Timeline& timeline, const std::vector<size_t>& blocks) {
  std::vector<std::string> names;
  for (const size_t block : blocks) names.push_back(to_string(timeline.blocks()[block].action));
  return names;
}

// The names of the blocks that the block of this name needs.
std::vector<std::string> needs_of(const Timeline& timeline, const std::string& name) {
  const auto needs = timeline.needs();
  for (size_t i = 0; i < needs.size(); ++i) {
    if (to_string(timeline.blocks()[i].action) == name) return names_of(timeline, needs[i]);
  }
  ADD_FAILURE() << "no block is called " << name;
  return {};
}

using Names = std::vector<std::string>;

TEST(Timeline, HasABlockForWhatComputes) {
  const Timeline timeline = timeline_of(ScheduleKind::kInterleavedZeroBubble, 2, 4);
  EXPECT_EQ(timeline.blocks().size(), 2U * 2 * 4 * 3) << "F, I and W, no idle slots";
  EXPECT_EQ(timeline.num_chunks(), 2);
  EXPECT_EQ(timeline.chunk_of({ActionType::kForward, 3, 0}), 1);
  for (const TimelineBlock& block : timeline.blocks()) EXPECT_EQ(block.time.length(), 1);
  EXPECT_EQ(timeline.blocks_of(GroupRank{1}).front().action, parse_action("1F0"));
}

TEST(Timeline, SaysItInWords) {
  const Timeline timeline = timeline_of(ScheduleKind::k1F1B, 4, 8);
  EXPECT_EQ(timeline.shape_text(), "4 ranks, 4 stages, 8 microbatches");
  EXPECT_EQ(timeline.result_text(), "makespan 33, bubble 27.3 %, peak 4 activations");
  const Timeline small = timeline_of(ScheduleKind::k1F1B, 1, 1);
  EXPECT_EQ(small.shape_text(), "1 rank, 1 stage, 1 microbatch");
  EXPECT_EQ(small.result_text(), "makespan 3, bubble 0.0 %, peak 1 activation");
}

TEST(Timeline, ForwardsNeedTheStageBefore) {
  const Timeline timeline = timeline_of(ScheduleKind::k1F1B, 3, 4);
  EXPECT_EQ(needs_of(timeline, "0F2"), Names{});
  EXPECT_EQ(needs_of(timeline, "1F2"), Names{"0F2"});
}

TEST(Timeline, BackwardsNeedTheirForwardAndTheStageAfter) {
  const Timeline timeline = timeline_of(ScheduleKind::k1F1B, 3, 4);
  EXPECT_EQ(needs_of(timeline, "2B3"), Names{"2F3"});
  EXPECT_EQ(needs_of(timeline, "1B3"), (Names{"1F3", "2B3"}));
}

TEST(Timeline, WeightGradientsNeedTheInputGradient) {
  const Timeline timeline = timeline_of(ScheduleKind::kZBVZeroBubble, 2, 4);
  EXPECT_EQ(needs_of(timeline, "3I1"), Names{"3F1"});
  EXPECT_EQ(needs_of(timeline, "1I1"), (Names{"1F1", "2I1"}));
  EXPECT_EQ(needs_of(timeline, "1W1"), Names{"1I1"});
}

TEST(Timeline, OverlapsNeedWhatTheirPartsNeed) {
  const Timeline timeline = overlapping();
  EXPECT_EQ(needs_of(timeline, "(0F1;1B0)OVERLAP_F_B"), Names{"1F0"});
  EXPECT_EQ(needs_of(timeline, "0B0"), (Names{"0F0", "(0F1;1B0)OVERLAP_F_B"}));
  EXPECT_EQ(needs_of(timeline, "1F1"), Names{"(0F1;1B0)OVERLAP_F_B"});
}

TEST(Timeline, NobodyStartsBeforeWhatItNeedsHasEnded) {
  for (const auto kind : {ScheduleKind::kGPipe, ScheduleKind::kInterleaved1F1B,
                          ScheduleKind::kZBVZeroBubble, ScheduleKind::kDualPipeV}) {
    const Timeline timeline = timeline_of(kind, 3, 6, {.message = {0.5}});
    const auto needs = timeline.needs();
    for (size_t i = 0; i < needs.size(); ++i) {
      for (const size_t need : needs[i]) {
        const TimelineBlock& maker = timeline.blocks()[need];
        const TimelineBlock& user = timeline.blocks()[i];
        const double message = maker.rank == user.rank ? 0 : 0.5;
        EXPECT_GE(user.time.start, maker.time.end + message) << user.action << maker.action;
      }
    }
  }
}

TEST(TimeAxis, IsThatOfAllTimelines) {
  std::vector<Timeline> timelines = one(timeline_of(ScheduleKind::kGPipe, 2, 2));
  timelines.push_back(timeline_of(ScheduleKind::k1F1B, 4, 8, {.forward = {0.5}}));
  const TimeAxis axis = common_axis(timelines);
  EXPECT_EQ(axis.end, timelines[1].makespan());
  EXPECT_EQ(axis.shortest, 0.5);
}

TEST(TimelineColor, DarkTextIsReadableOnAll) {
  for (const auto type : {ActionType::kForward, ActionType::kBackward, ActionType::kInputGrad,
                          ActionType::kWeightGrad}) {
    for (int64_t chunk = 0; chunk < 4; ++chunk) {
      const Rgb color = action_color(type, chunk, 4);
      const double gray = 0.2126 * color.red + 0.7152 * color.green + 0.0722 * color.blue;
      EXPECT_GT(gray, 115) << to_string(type) << " " << chunk << " " << to_hex(color);
    }
  }
}

TEST(TimelineColor, TypesAndShadesDifferOnA256ColourTerminal) {
  std::set<std::string> seen;
  for (const auto type : {ActionType::kForward, ActionType::kBackward, ActionType::kInputGrad,
                          ActionType::kWeightGrad}) {
    for (int64_t chunk = 0; chunk < 2; ++chunk) {
      seen.insert(on_color("x", action_color(type, chunk, 2), ColorMode::k256));
    }
  }
  EXPECT_EQ(seen.size(), 8U);
}

TEST(TimelineTerminal, PlainText) {
  EXPECT_EQ(draw_terminal(one(timeline_of(ScheduleKind::k1F1B, 2, 2)), {.width = 80}),
            "1F1B: 2 ranks, 2 stages, 2 microbatches\n"
            "makespan 9, bubble 33.3 %, peak 2 activations\n"
            "rank 0 F0------F1------................B0--------------........B1--------------\n"
            "rank 1 ........F0------B0--------------F1------B1--------------................\n"
            "       |0              |2              |4              |6              |8\n"
            "\n"
            " F  forward    B  backward   . idle\n");
}

TEST(TimelineTerminal, LaterStagesAreInLowerCaseAndOverlapsHaveAPlus) {
  const std::string text = draw_terminal(one(overlapping()), {.width = 31});
  EXPECT_NE(text.find("rank 0 F0f0F1+b0-B0--f1b1--B1--\n"), std::string::npos) << text;
  EXPECT_NE(text.find("lower case: a rank's later stages\n"), std::string::npos) << text;
}

TEST(TimelineTerminal, LinesFitAnyWidth) {
  const std::vector<Timeline> timelines = one(timeline_of(ScheduleKind::kDualPipeV, 4, 20));
  for (const int64_t width : {50, 80, 120, 200, 400}) {
    for (const auto line : split(draw_terminal(timelines, {.width = width}), '\n')) {
      EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
    }
  }
}

TEST(TimelineTerminal, NumbersAreLeftOutWhereBlocksAreShorterThanACharacter) {
  const std::string text =
      draw_terminal(one(timeline_of(ScheduleKind::k1F1B, 4, 64)), {.width = 60});
  const std::string line(split(text, '\n')[3]);
  ASSERT_TRUE(line.starts_with("rank 1 ")) << text;
  EXPECT_EQ(line.find_first_of("0123456789", 7), std::string::npos) << line;
  EXPECT_GT(std::ranges::count(line, 'F'), 5) << "every third unit of time: " << line;
}

TEST(TimelineTerminal, ColoursAndBorders) {
  const std::string text = draw_terminal(one(timeline_of(ScheduleKind::k1F1B, 2, 2)),
                                         {.width = 80, .color = ColorMode::kTrueColor});
  EXPECT_NE(text.find("▏   0   \x1b[0m"), std::string::npos) << text;
  EXPECT_EQ(count(text, "▏"), 8U) << "one for each block";
  EXPECT_NE(text.find("\x1b[2m·"), std::string::npos) << "idle time is faint";
}

TEST(TimelineTerminal, KnowsWhatItCannotShow) {
  EXPECT_TRUE(fits_terminal(one(timeline_of(ScheduleKind::k1F1B, 16, 64)), {.width = 80}));
  EXPECT_FALSE(fits_terminal(one(timeline_of(ScheduleKind::k1F1B, 128, 128)), {.width = 80}));
  EXPECT_FALSE(fits_terminal(one(timeline_of(ScheduleKind::kGPipe, 4, 1000)), {.width = 80}));
}

TEST(TimelineSvg, HasABlockAndANumberForEachAction) {
  const std::string svg = draw_svg(one(timeline_of(ScheduleKind::k1F1B, 4, 8)), "a < b", "s & t");
  EXPECT_EQ(count(svg, "<rect class=\"block\""), 64U);
  EXPECT_EQ(count(svg, "<text class=\"number\""), 64U);
  EXPECT_EQ(count(svg, "<rect class=\"idle\""), 4U);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("s &amp; t"), std::string::npos);
  EXPECT_NE(svg.find("<title>2B0, 6 to 8</title>"), std::string::npos);
  EXPECT_NE(svg.find(">27.3 %<"), std::string::npos);
}

TEST(TimelineSvg, OverlapsAreTwoHalves) {
  const std::string svg = draw_svg(one(overlapping()), "t", "s");
  EXPECT_EQ(count(svg, "<rect class=\"block\""), 8U);
  EXPECT_EQ(count(svg, "<text class=\"half\""), 2U);
  EXPECT_NE(svg.find("stacked: both at once"), std::string::npos);
}

TEST(TimelineSvg, NumbersThatDoNotFitAreLeftOut) {
  const Costs uneven{.forward = {0.001}, .input_grad = {1}, .weight_grad = {1}};
  const std::string svg = draw_svg(one(timeline_of(ScheduleKind::k1F1B, 2, 16, uneven)), "t", "s");
  EXPECT_EQ(count(svg, "<text class=\"number\""), 32U) << "those of the backwards";
}

TEST(TimelineSvg, SeveralShareAnAxis) {
  std::vector<Timeline> timelines = one(timeline_of(ScheduleKind::kGPipe, 2, 4));
  timelines.push_back(timeline_of(ScheduleKind::k1F1B, 2, 8));
  const std::string svg = draw_svg(timelines, "t", "s");
  EXPECT_EQ(count(svg, "class=\"name\""), 2U);
  EXPECT_EQ(count(svg, ">20</text>"), 2U) << "both rulers go to the end of the longer one";
}

TEST(TimelineNames, AreSpeltInEveryPicture) {
  const Schedule schedule = generate({.pp = 1, .microbatches = 1});
  const std::vector<Timeline> timelines = one({schedule, simulate(schedule, {}), "a\x1b[2J\xff<b"});
  EXPECT_NE(draw_svg(timelines, "\x07", "").find("a\\x1b[2J\\xff&lt;b"), std::string::npos);
  EXPECT_NE(draw_svg(timelines, "\x07", "").find(">\\x07<"), std::string::npos);
  EXPECT_TRUE(draw_terminal(timelines, {.width = 80}).starts_with("a\\x1b[2J\\xff<b: "));
  const json page = json::parse(page_json(timelines, "\x7f"));
  EXPECT_EQ(page["schedules"][0]["name"], "a\\x1b[2J\\xff<b");
  EXPECT_EQ(page["subtitle"], "\\x7f");
}

TEST(TimelineTrace, IsATraceOfAllRanks) {
  std::vector<Timeline> timelines = one(timeline_of(ScheduleKind::kDualPipeV, 2, 4));
  timelines.push_back(timeline_of(ScheduleKind::k1F1B, 2, 4));
  std::ostringstream out;
  write_timeline_trace(timelines, out);
  const json events = testkit::checked_trace(out.str());
  const auto of_phase = [&](const char* phase) {
    return std::ranges::count_if(events, [&](const json& event) { return event["ph"] == phase; });
  };
  EXPECT_EQ(of_phase("X"), std::ssize(timelines[0].blocks()) + std::ssize(timelines[1].blocks()));
  EXPECT_EQ(of_phase("s"), of_phase("f"));
  EXPECT_GE(of_phase("s"), 2 * 4) << "an arrow for each message";
  EXPECT_GT(of_phase("C"), 0);
}

TEST(TimelinePage, IsToldWhatTheTimelineSays) {
  const std::vector<Timeline> timelines = one(timeline_of(ScheduleKind::kZBVZeroBubble, 2, 4));
  const json data = json::parse(page_json(timelines, "how"));
  EXPECT_EQ(data["subtitle"], "how");
  EXPECT_EQ(data["end"], timelines[0].makespan());
  EXPECT_EQ(data["legend"].size(), 3U);
  EXPECT_EQ(data["legend"][0]["colors"].size(), 2U);
  const json& schedule = data["schedules"][0];
  EXPECT_EQ(schedule["ranks"].size(), 2U);
  ASSERT_EQ(schedule["blocks"].size(), timelines[0].blocks().size());
  const auto needs = timelines[0].needs();
  for (size_t i = 0; i < needs.size(); ++i) EXPECT_EQ(schedule["blocks"][i]["needs"], needs[i]);
  EXPECT_EQ(schedule["ranks"][1]["live"].size(), timelines[0].live_of(GroupRank{1}).size());
}

TEST(TimelinePage, StandsAlone) {
  const Schedule schedule("</script><b>", {.pp = 1, .num_stages = 1, .microbatches = 1},
                          {row("0F0 0B0")});
  const std::string page =
      draw_page(one({schedule, simulate(schedule, {})}), "</script> & co", "x");
  EXPECT_EQ(count(page, "</script>"), 2U) << "those of the page itself";
  EXPECT_EQ(count(page, "<b>"), 0U);
  EXPECT_EQ(count(page, "@DATA@"), 0U);
  EXPECT_EQ(count(page, "src="), 0U);
  EXPECT_NE(page.find("<title>&lt;/script&gt; &amp; co</title>"), std::string::npos);
}

}  // namespace
}  // namespace tessera

#include "tessera/draw/rank_grid.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

Layout sample() {
  return Layout::row_major({{"dp", 2}, {"tp", 2}});
}

std::vector<GroupSpec> kinds() {
  return {{"TENSOR", "tp", {sample(), {"tp"}}}, {"DATA", "dp", {sample(), {"dp"}}}};
}

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(RankGrid, KnowsWhichGroupsLeaveANode) {
  const RankGrid grid = make_rank_grid(kinds(), 2, std::nullopt);
  EXPECT_EQ(grid.panels[0].caption, "2 groups of 2, inside a node");
  EXPECT_EQ(grid.panels[1].caption, "2 groups of 2, over 2 nodes");
  EXPECT_EQ(grid.panels[1].group_of, (std::vector<int64_t>{0, 1, 0, 1}));
}

TEST(RankGrid, TheWidestGroupCounts) {
  const GroupFamily triples(Layout::row_major({{"dp", 4}, {"tp", 3}}), {"tp"});
  EXPECT_EQ(nodes_of(triples.group(0), 8), 1);
  EXPECT_EQ(widest_span(triples, 8), 2) << "ranks 6 to 8 sit on two nodes";
}

TEST(RankGrid, PlainTerminal) {
  EXPECT_EQ(draw_terminal(make_rank_grid(kinds(), 2, std::nullopt), {.width = 80}),
            "        tp: 2 groups of 2, inside a node  dp: 2 groups of 2, over 2 nodes\n"
            "node 0   0  0                              0  1 \n"
            "node 1   1  1                              0  1 \n"
            "\n");
}

TEST(RankGrid, NarrowTerminalsPutPanelsBelowEachOther) {
  const std::string text = draw_terminal(make_rank_grid(kinds(), 2, std::nullopt), {.width = 50});
  EXPECT_EQ(count(text, "node 1"), 2U);
}

TEST(RankGrid, TheFocusStandsInBracketsAndOthersAreFaint) {
  const std::string text = draw_terminal(make_rank_grid(kinds(), 2, GlobalRank{1}),
                                         {.width = 80, .color = ColorMode::k256});
  EXPECT_EQ(count(text, "[0]"), 1U);
  EXPECT_EQ(count(text, "[1]"), 1U);
  EXPECT_EQ(count(text, "\x1b[2m"), 4U) << "two ranks in each panel share no group with rank 1";
}

TEST(RankGrid, WithoutColoursOthersAreDots) {
  const std::string text = draw_terminal(make_rank_grid(kinds(), 2, GlobalRank{1}), {.width = 80});
  EXPECT_NE(text.find("node 0   0 [0]                             . [1]\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("node 1   .  .                              .  1 \n"), std::string::npos)
      << text;
}

TEST(RankGrid, LargeNodesWrap) {
  const std::vector<GroupSpec> one{{"WORLD", "dp", {Layout::row_major({{"dp", 40}}), {"dp"}}}};
  const RankGrid grid = make_rank_grid(one, 32, std::nullopt);
  EXPECT_EQ(grid.columns(), 16);
  EXPECT_EQ(count(draw_terminal(grid, {}), "\n"), 5U) << "heading, 2 + 1 rows, blank line";
}

TEST(RankGrid, SvgHasACellPerRankAndPanelAndEscapesText) {
  const std::string svg =
      draw_svg(make_rank_grid(kinds(), 2, GlobalRank{1}), "a < b & \"c\"", "sub");
  EXPECT_EQ(count(svg, "<rect class=\"cell"), 8U);
  EXPECT_EQ(count(svg, "cell focus"), 2U);
  EXPECT_EQ(count(svg, "class=\"quiet\""), 4U);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(count(svg, "<g"), count(svg, "</g>"));
}

TEST(RankGrid, SvgPanelsAreAsWideAsTheirCaptions) {
  const std::string svg = draw_svg(make_rank_grid(kinds(), 1, std::nullopt), "t", "s");
  const size_t second = svg.rfind("translate(");
  EXPECT_GT(std::stoi(svg.substr(second + 10)), 250) << "one cell per node, but a long caption";
}

TEST(RankGrid, RefusesWhatCannotBeDrawn) {
  EXPECT_THROW(make_rank_grid(kinds(), 0, std::nullopt), ConfigError);
  EXPECT_THROW(make_rank_grid({}, 8, std::nullopt), ConfigError);
  EXPECT_THROW(make_rank_grid(kinds(), 8, GlobalRank{4}), ConfigError);
  const std::vector<GroupSpec> ends{{"ENDS", "dp ends", {sample(), {"dp"}, Ends{}}}};
  EXPECT_THROW(make_rank_grid(ends, 8, std::nullopt), ConfigError);
}

}  // namespace
}  // namespace tessera

#include "tessera/draw/heat_map.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HeatMap, HasACellPerStepAndRow) {
  const std::string svg = draw_svg(
      HeatMap{.steps = {0, 1, 2}, .columns = {{1, 0}, {2, 0.5}, {0, 2}}}, "Load", "mean 1");
  EXPECT_EQ(count_of(svg, "class=\"cell\""), 6U);
  EXPECT_NE(svg.find("expert 1, step 2: 2"), std::string::npos);
  EXPECT_NE(svg.find("rgb(255,255,255)"), std::string::npos);  // No tokens.
}

TEST(HeatMap, JoinsNeighbouringSteps) {
  HeatMap map;
  for (int step = 0; step < 1000; ++step) {
    map.steps.push_back(step);
    map.columns.push_back({1, step % 2 == 0 ? 0.0 : 2.0});
  }
  const std::string svg = draw_svg(map, "Load", "");
  EXPECT_EQ(count_of(svg, "class=\"cell\""), 240U);
}

TEST(HeatMap, OfNoStepHasNoCell) {
  EXPECT_EQ(count_of(draw_svg(HeatMap{}, "Load", ""), "class=\"cell\""), 0U);
}

}  // namespace
}  // namespace tessera

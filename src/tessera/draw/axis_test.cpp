#include "tessera/draw/internal/axis.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {

using namespace draw::detail;

namespace {

TEST(RoundStep, IsRoundAndNotTooSmall) {
  EXPECT_EQ(round_step(33, 7), 5);
  EXPECT_EQ(round_step(33, 33), 1);
  EXPECT_EQ(round_step(33, 3), 20);
  EXPECT_EQ(round_step(7, 1), 10);
  EXPECT_DOUBLE_EQ(round_step(0.09, 10), 0.01);
}

TEST(RoundAxis, BeginsAndEndsWithAMark) {
  const ValueAxis axis = round_axis(1.43, 5.53, 5);
  EXPECT_EQ(axis.marks(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(axis.share(1), 0);
  EXPECT_EQ(axis.share(6), 1);
}

TEST(RoundAxis, MarksThatAreValuesAreNotExceeded) {
  const ValueAxis axis = round_axis(0.1, 0.3, 4);
  EXPECT_NEAR(axis.low, 0.1, 1e-12);
  EXPECT_NEAR(axis.high, 0.3, 1e-12);
}

TEST(RoundAxis, OneValueHasRoomAroundIt) {
  for (const double value : {0.0, 2.5, -3.0, 1e-9}) {
    const ValueAxis axis = round_axis(value, value, 5);
    EXPECT_LT(axis.low, value);
    EXPECT_GT(axis.high, value);
    EXPECT_GE(axis.marks().size(), 2U);
  }
}

TEST(StepAxis, EndsWithItsValuesAndHasWholeMarks) {
  EXPECT_EQ(step_axis(0, 2, 8).marks(), (std::vector<double>{0, 1, 2}));
  const ValueAxis axis = step_axis(0, 229, 5);
  EXPECT_EQ(axis.high, 229);
  EXPECT_EQ(axis.marks(), (std::vector<double>{0, 50, 100, 150, 200}));
}

TEST(ExtentOf, PassesOverWhatIsNoNumber) {
  const std::vector<CurveSeries> series{{"a", {{0, 3}, {1, NAN}, {2, 1}}}, {"b", {{5, 2}}}};
  const CurveExtent extent = extent_of(series);
  EXPECT_EQ(extent.x_greatest, 5);
  EXPECT_EQ(extent.y_least, 1);
  EXPECT_EQ(extent.y_greatest, 3);
  const CurveExtent nothing = extent_of({});
  EXPECT_EQ(nothing.x_least, 0);
  EXPECT_EQ(nothing.x_greatest, 1);
}

TEST(Thinned, MeansOfNeighbours) {
  const std::vector<CurvePoint> points{{0, 1}, {1, 3}, {2, 5}, {3, 7}, {4, NAN}};
  const auto three = thinned(points, 3);
  ASSERT_EQ(three.size(), 3U);
  EXPECT_EQ(three[0].y, 1);
  EXPECT_EQ(three[1].x, 1.5);
  EXPECT_EQ(three[1].y, 4);
  EXPECT_TRUE(std::isnan(three[2].y)) << "a loss that ran away is not hidden";
  EXPECT_EQ(thinned(points, 10).size(), 5U);
  EXPECT_TRUE(thinned({}, 10).empty());
}

TEST(ShortNumber, HasFourDigits) {
  EXPECT_EQ(short_number(2.13456), "2.135");
  EXPECT_EQ(short_number(0.0003), "0.0003");
  EXPECT_EQ(short_number(81320), "8.132e+04");
}

}  // namespace
}  // namespace tessera

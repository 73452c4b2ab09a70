#include "tessera/base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(NumberText, HasItsDecimals) {
  EXPECT_EQ(fixed(2.13, 3), "2.130");
  EXPECT_EQ(fixed(1e9, 0), "1000000000");
  EXPECT_EQ(fixed(-0.05, 1), "-0.1");
  EXPECT_EQ(fixed(NAN, 1), "nan");
}

TEST(NumberText, ExactTextIsTheShortest) {
  EXPECT_EQ(exact_text(0.1), "0.1");
  EXPECT_EQ(std::stod(exact_text(1.0 / 3)), 1.0 / 3);
}

TEST(NumberText, SharesArePercent) {
  EXPECT_EQ(percent(0.27273), "27.3 %");
  EXPECT_EQ(percent(0), "0.0 %");
}

}  // namespace
}  // namespace tessera

#include "tessera/base/checked.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

TEST(Checked, MultipliesWithinRange) {
  EXPECT_EQ(checked_multiply(int64_t{1} << 31, int64_t{1} << 31, "x"), int64_t{1} << 62);
  EXPECT_EQ(checked_add(2, 3, "x"), 5);
  EXPECT_EQ(checked_product(std::vector<int64_t>{}, "x"), 1);
  EXPECT_EQ(checked_product(std::vector<int64_t>{2, 3, 4}, "x"), 24);
}

TEST(Checked, RefusesSumsThatOverflow) {
  EXPECT_THROW(checked_add(std::numeric_limits<int64_t>::max(), 1, "x"), ConfigError);
  EXPECT_THROW(checked_add(std::numeric_limits<int64_t>::min(), -1, "x"), ConfigError);
}

TEST(Checked, RefusesOverflowAndNamesTheFactors) {
  try {
    checked_multiply(std::numeric_limits<int64_t>::max(), 2, "the number of ranks");
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "the number of ranks overflows 64 bits: 9223372036854775807 × 2; choose smaller "
                 "sizes");
  }
}

TEST(Checked, IntegersAreWholeTexts) {
  EXPECT_EQ(checked_integer("-12", "--x"), -12);
  for (const char* text : {"", "1.5", "8 ", "99999999999999999999"}) {
    EXPECT_THROW(checked_integer(text, "--x"), ConfigError) << text;
  }
}

}  // namespace
}  // namespace tessera

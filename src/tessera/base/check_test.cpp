#include "tessera/base/check.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Check, RefusesWithTheConcatenatedMessage) {
  const int tp = 3;
  EXPECT_NO_THROW(TSR_CHECK(tp == 3, "unused"));
  try {
    TSR_CHECK(tp == 2, "tp ", tp, " is not 2");
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "tp 3 is not 2");
  }
}

TEST(Check, AssertNamesThePlaceAndTheCondition) {
  try {
    TSR_ASSERT(1 > 2, "numbers are odd today");
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("check_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("1 > 2 does not hold; numbers are odd today"), std::string::npos);
  }
}

TEST(Check, EveryKindIsAnError) {
  EXPECT_THROW(throw ConfigError("x"), Error);
  EXPECT_THROW(throw StateError("x"), Error);
  EXPECT_THROW(throw CommError("x"), Error);
  EXPECT_THROW(throw DataError("x"), Error);
  EXPECT_THROW(throw InternalError("x"), Error);
}

}  // namespace
}  // namespace tessera

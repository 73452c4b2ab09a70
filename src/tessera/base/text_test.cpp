#include "tessera/base/text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Text, ConcatPrintsAllParts) {
  EXPECT_EQ(concat("tp=", 2, ", cp=", 1), "tp=2, cp=1");
}

TEST(Text, JoinPutsTheSeparatorBetween) {
  EXPECT_EQ(join(std::vector{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(join(std::vector<int>{}, ", "), "");
}

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("tp--dp", '-'), (std::vector<std::string_view>{"tp", "", "dp"}));
  EXPECT_EQ(split("", '-'), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split("tp-", '-'), (std::vector<std::string_view>{"tp", ""}));
}

TEST(Text, NearestFindsTyposAndNothingElse) {
  const std::vector<std::string> words{"ranks", "train", "inspect"};
  EXPECT_EQ(nearest("rnaks", words), "ranks");
  EXPECT_EQ(nearest("trian", words), "train");
  EXPECT_EQ(nearest("frobnicate", words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
  EXPECT_EQ(did_you_mean("inspct", words), "; did you mean 'inspect'?");
  EXPECT_EQ(did_you_mean("zzz", words), "");
}

TEST(Text, ThousandsAreGrouped) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1048576), "1,048,576");
  EXPECT_EQ(with_thousands(-100), "-100");
  EXPECT_EQ(with_thousands(-1000), "-1,000");
}

TEST(Text, IntegersAreWholeTexts) {
  EXPECT_EQ(to_integer("64"), 64);
  EXPECT_EQ(to_integer("-3"), -3);
  for (const char* text : {"", " 8", "8 ", "+8", "8x", "1.5", "99999999999999999999"}) {
    EXPECT_EQ(to_integer(text), std::nullopt) << text;
  }
}

TEST(Text, LowerCase) {
  EXPECT_EQ(to_lower("TP-cP"), "tp-cp");
}

}  // namespace
}  // namespace tessera

// The example of a reader's own module, as its reader runs it.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "tests/testkit/process.h"

namespace tessera {
namespace {

testkit::Finished own_module(const std::string& arguments) {
  return testkit::run(TESSERA_OWN_MODULE " " + arguments);
}

// What stands behind "loss" in each line.
std::vector<double> losses_in(const std::string& text) {
  static const std::regex kLoss(R"(loss ([0-9.]+))");
  std::vector<double> losses;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kLoss);
       at != std::sregex_iterator(); ++at) {
    losses.push_back(std::stod((*at)[1]));
  }
  return losses;
}

// A text that no change of the documents changes.
TEST(OwnModule, LearnsATextAndDoesSoTheSameWayTwice) {
  const std::string text = TESSERA_SOURCE_DIR "/LICENSE";
  const auto finished = own_module(text);
  ASSERT_EQ(finished.code, 0) << finished.err;
  const std::vector<double> losses = losses_in(finished.out);
  ASSERT_EQ(losses.size(), 7U) << finished.out;
  EXPECT_NEAR(losses.front(), std::log(256), 0.2) << "nothing is known of the first byte";
  EXPECT_LT(losses.back(), 2.8) << "single bytes tell 3.2: " << finished.out;
  EXPECT_EQ(own_module(text).out, finished.out);
}

TEST(OwnModule, SaysWhatIsWrong) {
  const auto finished = own_module("/no/such/text");
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("/no/such/text"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace tessera

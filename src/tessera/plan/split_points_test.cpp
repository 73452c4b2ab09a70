#include "tessera/plan/split_points.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Points = std::vector<int64_t>;

TEST(SplitPoints, WhatDoesNotComeOutEvenGoesToTheStagesAfterTheFirst) {
  EXPECT_EQ(even_split_points(8, 4), (Points{2, 4, 6}));
  EXPECT_EQ(even_split_points(10, 4), (Points{2, 5, 8}));
  EXPECT_EQ(even_split_points(11, 4), (Points{2, 5, 8}));
  EXPECT_EQ(even_split_points(5, 1), Points{});
  EXPECT_EQ(even_split_points(3, 3), (Points{1, 2}));
}

// Every stage has its even share or one layer more; the first never has more.
TEST(SplitPoints, SharesDifferByOne) {
  for (int64_t stages = 1; stages <= 9; ++stages) {
    for (int64_t layers = stages; layers <= 40; ++layers) {
      Points begins = even_split_points(layers, stages);
      ASSERT_NO_THROW(check_split_points(begins, layers));
      begins.insert(begins.begin(), 0);
      begins.push_back(layers);
      ASSERT_EQ(begins.size(), static_cast<size_t>(stages + 1));
      EXPECT_EQ(begins[1], layers / stages);
      for (size_t i = 1; i < begins.size(); ++i) {
        const int64_t share = begins[i] - begins[i - 1];
        EXPECT_TRUE(share == layers / stages || share == layers / stages + 1)
            << layers << " layers on " << stages;
      }
    }
  }
}

TEST(SplitPoints, TooFewLayersAreRefused) {
  EXPECT_THROW(even_split_points(2, 3), ConfigError);
  EXPECT_THROW(even_split_points(2, 0), ConfigError);
}

TEST(SplitPoints, GivenOnesMustRise) {
  check_split_points(Points{}, 4);
  check_split_points(Points{0, 2}, 4);
  check_split_points(Points{2, 4}, 4);
  EXPECT_THROW(check_split_points(Points{2, 2}, 4), ConfigError);
  EXPECT_THROW(check_split_points(Points{-1}, 4), ConfigError);
  const std::string message =
      testkit::message_of<ConfigError>([] { check_split_points(Points{3, 5}, 4); });
  EXPECT_NE(message.find("5 is out of order"), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera

#include "tessera/optim/spikes.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

SpikeDetector detector_after(int64_t steps, const SpikeOptions& options) {
  SpikeDetector detector(options);
  for (int64_t i = 0; i < steps; ++i) detector.add(2, i % 2 == 0 ? 1 : 3);
  return detector;
}

TEST(Spikes, AreAboveTheMedianTimesTheFactor) {
  const SpikeDetector detector = detector_after(21, {.factor = 4});  // The median norm is 1.
  EXPECT_EQ(detector.find(2, 4), "");
  EXPECT_EQ(detector.find(2, 5),
            "the gradient norm 5 is 5.0 times the median of the last 21 good steps");
  EXPECT_EQ(detector.find(8, 1), "");
  EXPECT_EQ(detector.find(9, 1), "the loss 9 is 4.5 times the median of the last 21 good steps");
}

TEST(Spikes, NeedEnoughSteps) {
  EXPECT_EQ(detector_after(19, {.factor = 4}).find(1e9, 1e9), "");
  EXPECT_NE(detector_after(20, {.factor = 4}).find(1e9, 1e9), "");
  EXPECT_EQ(detector_after(100, {.factor = 0}).find(1e9, 1e9), "");
}

TEST(Spikes, ForgetOldSteps) {
  SpikeDetector detector = detector_after(100, {.factor = 4, .window = 20});
  for (int i = 0; i < 20; ++i) detector.add(200, 100);
  EXPECT_EQ(detector.find(200, 399), "");
}

TEST(Spikes, StateIsExact) {
  SpikeDetector before({.factor = 2});
  for (int i = 0; i < 30; ++i) before.add(1.0 / (i + 1), 0.1 * i);
  SpikeDetector after({.factor = 2});
  after.restore(before.state());
  EXPECT_EQ(after.state(), before.state());
  EXPECT_EQ(after.find(1, 0), before.find(1, 0));
  EXPECT_THROW(after.restore("1 x"), DataError);
  EXPECT_THROW(after.restore("1"), DataError);
}

TEST(Spikes, OptionsAreChecked) {
  EXPECT_EQ(message_of<ConfigError>([] { SpikeDetector({.factor = 0.5}); }),
            "the factor of a spike must be above 1, or 0, but is 0.5");
  EXPECT_EQ(message_of<ConfigError>([] { SpikeDetector({.factor = 2, .window = 3}); }),
            "the median of spikes needs ≥ 20 steps, but has 3");
}

}  // namespace
}  // namespace tessera

#include "tessera/optim/learning_rate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using enum LearningRateKind;
using testkit::message_of;

std::string refusal(const LearningRate& rate) {
  return message_of<ConfigError>([&] { check(rate); });
}

TEST(LearningRate, ConstantStaysAfterItsWarmUp) {
  const LearningRate rate{.peak = 0.4, .warmup = 3};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.3);
  EXPECT_EQ(rate.at(3), 0.4);
  EXPECT_EQ(rate.at(1'000'000), 0.4);
  EXPECT_EQ((LearningRate{.peak = 0.4}.at(0)), 0.4);
}

TEST(LearningRate, CosineIsTheFormula) {
  const LearningRate rate{.kind = kCosine, .peak = 1, .final = 0.2, .warmup = 2, .steps = 12};
  EXPECT_DOUBLE_EQ(rate.at(1), 2.0 / 3);
  EXPECT_EQ(rate.at(2), 1);
  EXPECT_DOUBLE_EQ(rate.at(7), 0.6);  // Half of the decay.
  EXPECT_DOUBLE_EQ(rate.at(11), 0.2 + 0.4 * (1 + std::cos(std::numbers::pi * 0.9)));
  EXPECT_DOUBLE_EQ(rate.at(12), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(100), 0.2);
}

TEST(LearningRate, LinearFallsFromTheWarmUpToTheEnd) {
  const LearningRate rate{.kind = kLinear, .peak = 1, .final = 0.2, .warmup = 1, .steps = 5};
  const std::vector<double> expected{0.5, 1, 0.8, 0.6, 0.4, 0.2, 0.2};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(rate.at(static_cast<int64_t>(i)), expected[i]) << i;
  }
}

TEST(LearningRate, WsdFallsInAStraightLineAtTheEnd) {
  const LearningRate rate{.kind = kWsd, .peak = 1, .warmup = 1, .steps = 10, .decay = 4};
  const std::vector<double> expected{0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0, 0};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(rate.at(static_cast<int64_t>(i)), expected[i]) << i;
  }
}

// A valid learning rate of any kind.
rc::Gen<LearningRate> any_rate() {
  return rc::gen::exec([] {
    const int64_t steps = *rc::gen::inRange<int64_t>(1, 300);
    const int64_t warmup = *rc::gen::inRange<int64_t>(0, steps);
    LearningRate rate{.kind = *rc::gen::element(kConstant, kCosine, kLinear, kWsd),
                      .peak = *rc::gen::inRange(1, 1000) * 1e-4,
                      .warmup = warmup,
                      .steps = steps};
    if (rate.kind != kConstant) rate.final = rate.peak * (*rc::gen::inRange(0, 11) / 10.0);
    if (rate.kind == kWsd) rate.decay = *rc::gen::inRange<int64_t>(0, steps - warmup + 1);
    return rate;
  });
}

RC_GTEST_PROP(LearningRateProperties, RisesToThePeakThenNeverAgain, ()) {
  const LearningRate rate = *any_rate();
  RC_ASSERT(rate.at(0) > 0);
  RC_ASSERT(rate.at(rate.warmup) == rate.peak);
  for (int64_t step = 1; step < rate.steps; ++step) {
    if (step <= rate.warmup) RC_ASSERT(rate.at(step) > rate.at(step - 1));
    if (step > rate.warmup) RC_ASSERT(rate.at(step) <= rate.at(step - 1));
    RC_ASSERT(rate.at(step) >= std::min(rate.final, rate.at(0)) * (1 - 1e-12));
  }
}

RC_GTEST_PROP(LearningRateProperties, HasNoJumps, ()) {
  const LearningRate rate = *any_rate();
  const int64_t falls = rate.kind == kWsd ? rate.decay : rate.steps - rate.warmup;
  // Nothing is steeper than the warm-up, or than the middle of a cosine.
  const double fall = falls == 0 ? 0 : std::numbers::pi / 2 / static_cast<double>(falls);
  const double rise = 1 / static_cast<double>(rate.warmup + 1);
  const double most = rate.peak * std::max(rise, fall) * (1 + 1e-9);
  for (int64_t step = 1; step < rate.steps; ++step) {
    RC_ASSERT(std::abs(rate.at(step) - rate.at(step - 1)) <= most);
  }
}

TEST(LearningRate, KindsHaveNames) {
  for (const std::string& name : learning_rate_kind_names()) {
    EXPECT_EQ(to_string(parse_learning_rate_kind(name)), name);
  }
  EXPECT_EQ(parse_learning_rate_kind("WSD"), kWsd);
  EXPECT_EQ(message_of<ConfigError>([] { parse_learning_rate_kind("cosin"); }),
            "unknown learning-rate schedule 'cosin'; choose one of constant, cosine, linear, wsd; "
            "did you "
            "mean 'cosine'?");
}

TEST(LearningRate, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(refusal({.kind = kCosine, .warmup = 10, .steps = 10}),
            "a warm-up of 10 steps does not end in a run of 10; choose at most 9");
  EXPECT_EQ(refusal({.kind = kWsd, .warmup = 4, .steps = 10, .decay = 7}),
            "a decay of 7 steps does not fit into a run of 10 after a warm-up of 4; choose at most "
            "6");
  EXPECT_EQ(refusal({.kind = kCosine}),
            "a cosine learning rate needs a run of ≥ 1 steps, but it has 0");
  EXPECT_EQ(refusal({.warmup = -1}), "warm-up and decay must be ≥ 0 steps, but are -1 and 0");
  EXPECT_EQ(refusal({.peak = -0.5}), "the learning rate must be finite and ≥ 0, but is -0.5");
  EXPECT_THROW(check({.peak = std::numeric_limits<double>::quiet_NaN()}), ConfigError);
  EXPECT_EQ(refusal({.kind = kCosine, .peak = 0.1, .final = 0.2, .steps = 5}),
            "the final learning rate 0.2 is above the peak rate 0.1; choose at most 0.1");
  EXPECT_EQ(refusal({.kind = kCosine, .steps = 5, .decay = 2}),
            "a cosine learning rate cannot have a decay of 2 steps; only wsd has one");
  EXPECT_EQ(
      refusal({.peak = 0.1, .final = 0.01}),
      "a constant learning rate cannot have a final rate of 0.01; choose cosine, linear or wsd, "
      "or leave `final` out");
  EXPECT_THROW(LearningRate{}.at(-1), ConfigError);
}

}  // namespace
}  // namespace tessera

#include "tessera/optim/grad_scaler.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

TEST(GradScaler, HasTheDefaultsOfPyTorch) {
  GradScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  for (int step = 0; step < 1999; ++step) scaler.update(true);
  EXPECT_EQ(scaler.state(), (GradScaler::State{65536, 1999}));
  scaler.update(true);
  EXPECT_EQ(scaler.state(), (GradScaler::State{131072, 0}));
  scaler.update(false);
  EXPECT_EQ(scaler.state(), (GradScaler::State{65536, 0}));
}

TEST(GradScaler, ABadStepStartsTheIntervalAgain) {
  GradScaler scaler(
      {.initial_scale = 100, .growth_factor = 3, .backoff_factor = 0.1, .growth_interval = 2});
  scaler.update(true);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 10);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 10);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 30);
}

TEST(GradScaler, StaysInTheRangeOfFloat32) {
  GradScaler scaler({.initial_scale = 3e38, .growth_interval = 1});
  scaler.update(true);
  EXPECT_EQ(scaler.state(), (GradScaler::State{3e38, 0}));
}

TEST(GradScaler, ContinuesFromItsState) {
  GradScaler first({.growth_interval = 3}), second({.growth_interval = 3});
  for (const bool finite : {true, false, true, true}) first.update(finite);
  second.restore(first.state());
  for (GradScaler* const scaler : {&first, &second}) scaler->update(true);
  EXPECT_EQ(first.scale(), 65536);
  EXPECT_EQ(second.state(), first.state());
}

TEST(GradScaler, RefusesFactorsThatDoNotFit) {
  EXPECT_THROW(GradScaler({.initial_scale = 0}), ConfigError);
  EXPECT_THROW(GradScaler({.growth_factor = 1}), ConfigError);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), ConfigError);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), ConfigError);
  EXPECT_THROW(GradScaler().restore({.scale = -1}), ConfigError);
}

}  // namespace
}  // namespace tessera

#include "tessera/base/normal_quantile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tessera {
namespace {

constexpr long double kRootHalf = 1 / std::numbers::sqrt2_v<long double>;

// The relative error of z as a quantile: the error of the probability below it, computed in long
// double, divided by the density.
double relative_error(const Probability& p, double z) {
  const long double x = static_cast<long double>(z) * kRootHalf;
  const long double exact_tail = static_cast<long double>(p.tail());
  const long double surplus =
      std::abs(p.from_middle()) < 0.25
          ? std::erf(x) / 2 - (static_cast<long double>(p.below) - 0.5L)
          : std::copysign(exact_tail - std::erfc(std::abs(x)) / 2, static_cast<long double>(z));
  const long double density =
      std::exp(-x * x) * kRootHalf * std::numbers::inv_sqrtpi_v<long double>;
  return static_cast<double>(std::abs(surplus / density / static_cast<long double>(z)));
}

// The nearest probability whose complement is exact.
double with_complement(double below) {
  return std::round(below * 0x1p53) * 0x1p-53;
}

double error_at(double below) {
  const Probability p{below, 1 - below};
  return relative_error(p, normal_quantile(p));
}

TEST(NormalQuantile, IsRightToFifteenDigits) {
  double worst = 0;
  for (int i = 1; i < 200'000; ++i) {
    worst = std::max(worst, error_at(with_complement(i / 400'000.0)));
  }
  for (double tail = 0.07; tail >= kSmallestTail; tail *= 0.9999) {
    worst = std::max(worst, error_at(tail));
  }
  EXPECT_LT(worst, 1.5e-15);
}

TEST(NormalQuantile, IsOddBitForBit) {
  for (double tail = 0.5; tail >= 0x1p-53; tail *= 0.9) {
    const double rounded = with_complement(tail);
    EXPECT_EQ(normal_quantile({rounded, 1 - rounded}), -normal_quantile({1 - rounded, rounded}));
  }
  EXPECT_EQ(normal_quantile({0.5, 0.5}), 0);
}

TEST(NormalQuantile, DoesNotFallWhereItsPiecesMeet) {
  const int64_t meeting = 0.075 * 0x1p32;
  double before = -std::numeric_limits<double>::infinity();
  for (int64_t i = meeting - 100'000; i < meeting + 100'000; ++i) {
    const double below = (static_cast<double>(i) + 0.5) * 0x1p-32;
    const double now = normal_quantile({below, 1 - below});
    ASSERT_GT(now, before) << "at " << below;
    before = now;
  }
}

TEST(NormalCdf, IsTheInverse) {
  for (const double z : {-9.0, -5.0, -2.0, -1.5, -0.1, 0.1, 1.0, 3.0, 8.0}) {
    const double tail = static_cast<double>(std::erfc(std::abs(z) * kRootHalf) / 2);
    const Probability p = normal_cdf(z);
    // An error in a quantile's last digits counts z times as much in the tail.
    EXPECT_NEAR(p.tail() / tail, 1, 1e-15 * (1 + z * z)) << z;
    EXPECT_EQ(p.below < p.above, z < 0) << z;
  }
  EXPECT_EQ(normal_cdf(0).below, 0.5);
}

TEST(NormalCdf, EndsWhereTheQuantileDoes) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(normal_cdf(-infinity).below, 0);
  EXPECT_EQ(normal_cdf(infinity).above, 0);
  EXPECT_EQ(normal_cdf(-40).below, 0);
}

TEST(NormalParts, AddUpToOne) {
  const NormalParts two = normal_parts(-2, 2);
  EXPECT_EQ(two.below, two.above);
  EXPECT_NEAR(two.within, 0.95449973610364158, 1e-15);
  const NormalParts far = normal_parts(4, 5);
  EXPECT_NEAR(far.within, 3.138459e-5, 1e-11);
  EXPECT_NEAR(far.above, 2.866516e-7, 1e-13);
  EXPECT_NEAR(normal_parts(-5, -4).within, far.within, 1e-20);
}

}  // namespace
}  // namespace tessera

// Tests the distribution of a million values each. Seeds are fixed, so the results are, too; one
// sequence in a hundred or fewer would miss the bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "tessera/base/random.h"

namespace tessera {
namespace {

constexpr size_t kCount = 1'000'000;
const double kRootCount = std::sqrt(kCount);

template <class T>
std::vector<double> sample(const Distribution& distribution, const std::string& name = "w") {
  std::vector<T> values(kCount);
  Sampler({.seed = 1, .name = name}, distribution).fill(0, std::span(values));
  return {values.begin(), values.end()};
}

double phi(double z) {
  return std::erfc(-z * std::sqrt(0.5)) / 2;
}

// The Kolmogorov-Smirnov statistic: the largest distance between the empirical and the exact
// distribution, times the root of the sample size; above 1.63 once in a hundred times.
double distance(std::vector<double> values, const std::function<double(double)>& cdf) {
  std::ranges::sort(values);
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double exact = cdf(values[i]) * kCount;
    const auto rank = static_cast<double>(i);
    worst = std::max({worst, exact - rank, rank + 1 - exact});
  }
  return worst / kRootCount;
}

double moment(const std::vector<double>& values, int power) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value, power);
  return sum / kCount;
}

template <class T>
class RandomStatistics : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(RandomStatistics, Types);

TYPED_TEST(RandomStatistics, UniformValuesAreUniform) {
  const auto cdf = [](double x) { return (x + 2) / 5; };
  EXPECT_LT(distance(sample<TypeParam>(Uniform{-2, 3}), cdf), 1.63);
}

TYPED_TEST(RandomStatistics, NormalValuesAreNormal) {
  const auto values = sample<TypeParam>(Normal{});
  EXPECT_LT(distance(values, phi), 1.63);
  // The standard deviations of the sample's moments are 1, sqrt 2, sqrt 15 and sqrt 96 over the
  // root.
  EXPECT_NEAR(moment(values, 1), 0, 2.6 * 1 / kRootCount);
  EXPECT_NEAR(moment(values, 2), 1, 2.6 * std::sqrt(2) / kRootCount);
  EXPECT_NEAR(moment(values, 3), 0, 2.6 * std::sqrt(15) / kRootCount);
  EXPECT_NEAR(moment(values, 4), 3, 2.6 * std::sqrt(96) / kRootCount);
}

TYPED_TEST(RandomStatistics, TailsHaveTheirShare) {
  const auto values = sample<TypeParam>(Normal{});
  for (const double z : {1.5, 2.0, 3.0, 4.0}) {
    const double expected = 2 * phi(-z) * kCount;
    const auto found = std::ranges::count_if(values, [z](double x) { return std::abs(x) > z; });
    EXPECT_NEAR(static_cast<double>(found), expected, 2.6 * std::sqrt(expected)) << z;
  }
}

TYPED_TEST(RandomStatistics, TruncatedValuesFollowTheirPart) {
  for (const TruncatedNormal& d :
       {TruncatedNormal{}, TruncatedNormal{1, 3, -2, 2.5}, TruncatedNormal{0, 1, 3, 4}}) {
    const double below = phi((d.low - d.mean) / d.std);
    const double within = phi((d.high - d.mean) / d.std) - below;
    const auto cdf = [&](double x) { return (phi((x - d.mean) / d.std) - below) / within; };
    EXPECT_LT(distance(sample<TypeParam>(d), cdf), 1.63);
  }
}

TYPED_TEST(RandomStatistics, MasksHaveTheirShare) {
  const double expected = 0.1;
  EXPECT_NEAR(moment(sample<TypeParam>(Bernoulli{expected}), 1), expected,
              2.6 * std::sqrt(expected * (1 - expected)) / kRootCount);
}

TYPED_TEST(RandomStatistics, NeighboursAndNamesHaveNothingInCommon) {
  const auto values = sample<TypeParam>(Normal{});
  for (const size_t lag : {1, 2, 3, 4, 8, 256}) {
    const double product = std::inner_product(values.begin() + static_cast<int64_t>(lag),
                                              values.end(), values.begin(), 0.0);
    EXPECT_LT(std::abs(product) / kCount, 2.6 / kRootCount) << lag;
  }
  for (const std::string name : {"v", "w.", "w0", "ww"}) {
    const auto other = sample<TypeParam>(Normal{}, name);
    const double product = std::inner_product(values.begin(), values.end(), other.begin(), 0.0);
    EXPECT_LT(std::abs(product) / kCount, 2.6 / kRootCount) << name;
  }
}

// The outermost values of 32 and 52 random bits.
TEST(RandomTails, EndWhereTheBitsEnd) {
  EXPECT_NEAR(normal_quantile({0x1p-33, 1 - 0x1p-33}), -6.33796, 1e-5);
  EXPECT_NEAR(normal_quantile({0x1p-53, 1 - 0x1p-53}), -8.20954, 1e-5);
}

}  // namespace
}  // namespace tessera

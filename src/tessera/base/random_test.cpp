#include "tessera/base/random.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const RandomKey kKey{.seed = 0x0123456789abcdef, .name = "layers.0.attention.wq"};

template <class T>
std::vector<T> values(const RandomKey& key, const Distribution& distribution, int64_t first,
                      size_t count) {
  std::vector<T> out(count);
  Sampler(key, distribution).fill(first, std::span(out));
  return out;
}

std::vector<Distribution> one_of_each() {
  return {Constant{3}, Uniform{-1, 2}, Normal{1, 2}, TruncatedNormal{0, 0.5, -1, 0.25},
          Bernoulli{0.3}};
}

template <class T>
void check_slice(const Distribution& distribution, int64_t first, size_t count) {
  const auto whole = values<T>(kKey, distribution, 0, static_cast<size_t>(first) + count);
  const auto slice = values<T>(kKey, distribution, first, count);
  RC_ASSERT(std::equal(slice.begin(), slice.end(), whole.begin() + first));
}

RC_GTEST_PROP(RandomProperty, ASliceEqualsThatPartOfTheWhole, ()) {
  const auto first = *rc::gen::inRange<int64_t>(0, 1500);
  const auto count = *rc::gen::inRange<size_t>(0, 1500);
  for (const Distribution& distribution : one_of_each()) {
    check_slice<float>(distribution, first, count);
    check_slice<double>(distribution, first, count);
  }
}

// The definition in docs/randomness.md, one element at a time.
uint64_t stream_by_definition(const RandomKey& key) {
  std::string bytes = key.name;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(key.call >> (8 * i)));
  uint64_t hash = 14695981039346656037U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31);
}

uint32_t word_by_definition(const RandomKey& key, uint64_t word) {
  const uint64_t stream = stream_by_definition(key);
  const uint64_t block = word / 4;
  const auto half = [](uint64_t value, int i) { return static_cast<uint32_t>(value >> (32 * i)); };
  return philox4x32({half(block, 0), half(block, 1), half(stream, 0), half(stream, 1)},
                    {half(key.seed, 0), half(key.seed, 1)})[word % 4];
}

double unit_by_definition(const RandomKey& key, uint64_t index, float /*type*/) {
  return (word_by_definition(key, index) + 0.5) * 0x1p-32;
}

double unit_by_definition(const RandomKey& key, uint64_t index, double /*type*/) {
  const uint64_t high = word_by_definition(key, 2 * index + 1);
  const uint64_t bits = (high << 32 | word_by_definition(key, 2 * index)) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

template <class T>
void check_definition(RandomKey key, int64_t first) {
  key.call = 5;
  const auto uniform = values<T>(key, Uniform{-3, 1}, first, 100);
  const auto normal = values<T>(key, Normal{0.5, 0.02}, first, 100);
  for (size_t i = 0; i < 100; ++i) {
    const double unit = unit_by_definition(key, static_cast<uint64_t>(first) + i, T{});
    ASSERT_EQ(uniform[i], static_cast<T>(-3 + 4 * unit));
    ASSERT_EQ(normal[i], static_cast<T>(0.5 + 0.02 * normal_quantile({unit, 1 - unit})));
  }
}

TEST(Random, FollowsItsDefinition) {
  for (const int64_t first : {int64_t{0}, int64_t{3}, int64_t{1} << 34, INT64_MAX - 100}) {
    check_definition<float>(kKey, first);
    check_definition<double>(kKey, first);
  }
}

TEST(Random, DependsOnSeedNameAndCall) {
  const auto base = values<float>(kKey, Normal{}, 0, 64);
  for (const RandomKey& other : {RandomKey{kKey.seed + 1, kKey.name}, RandomKey{kKey.seed, "wk"},
                                 RandomKey{kKey.seed, kKey.name, 1}}) {
    const auto different = values<float>(other, Normal{}, 0, 64);
    for (size_t i = 0; i < base.size(); ++i) EXPECT_NE(base[i], different[i]);
  }
}

TEST(Random, AUniformValueStaysBelowItsUpperBound) {
  const float next = std::nextafter(1.0F, 2.0F);
  for (const float value : values<float>(kKey, Uniform{1, next}, 0, 10'000)) EXPECT_EQ(value, 1);
  const auto third = values<float>(kKey, Uniform{0, 1.0 / 3}, 0, 100'000);
  EXPECT_LT(*std::ranges::max_element(third), 1.0 / 3);
  EXPECT_GE(*std::ranges::min_element(third), 0);
}

TEST(Random, ATruncatedValueStaysWithinItsBounds) {
  for (const TruncatedNormal& d :
       {TruncatedNormal{}, TruncatedNormal{0, 1, 4, 5}, TruncatedNormal{3, 0.5, 1, 2},
        TruncatedNormal{0, 1, 0, kInfinity}, TruncatedNormal{0, 1, -kInfinity, -4.5}}) {
    const auto [low, high] = std::ranges::minmax(values<double>(kKey, d, 0, 100'000));
    EXPECT_GE(low, d.low);
    EXPECT_LE(high, d.high);
    EXPECT_LT(low, high);
  }
}

TEST(Random, WithoutBoundsATruncatedNormalIsTheNormal) {
  EXPECT_EQ(values<float>(kKey, TruncatedNormal{1, 2, -kInfinity, kInfinity}, 5, 1000),
            values<float>(kKey, Normal{1, 2}, 5, 1000));
}

TEST(Random, CertainThingsAreCertain) {
  EXPECT_EQ(values<float>(kKey, Bernoulli{0}, 0, 1000), std::vector<float>(1000, 0));
  EXPECT_EQ(values<float>(kKey, Bernoulli{1}, 0, 1000), std::vector<float>(1000, 1));
  EXPECT_EQ(values<float>(kKey, Normal{7, 0}, 0, 1000), std::vector<float>(1000, 7));
  EXPECT_EQ(values<double>(kKey, Constant{0.1}, 0, 1000), std::vector<double>(1000, 0.1));
}

std::string refusal(const Distribution& distribution) {
  return testkit::message_of<ConfigError>([&] { Sampler(kKey, distribution); });
}

TEST(RandomErrors, NameTheValueTheRuleAndTheFix) {
  EXPECT_EQ(refusal(Uniform{2, 1}),
            "a uniform distribution from 2 to 1 does not exist; give finite bounds, the lower "
            "first, or use Constant");
  EXPECT_EQ(refusal(Normal{0, -1}),
            "a normal distribution of mean 0 and standard deviation -1 does not exist; both must "
            "be finite, and the deviation at least 0");
  EXPECT_EQ(refusal(TruncatedNormal{0, 1, 5, 9}),
            "[5, 9] holds less than a millionth of the normal distribution of mean 0 and standard "
            "deviation 1; choose bounds closer to the mean");
  EXPECT_EQ(refusal(TruncatedNormal{0, 1, 2, 2}),
            "a normal distribution truncated to [2, 2] is empty; give the lower bound first");
  EXPECT_EQ(refusal(Bernoulli{1.5}), "a probability of 1.5 is invalid; choose one from 0 to 1");
}

TEST(RandomErrors, RefuseWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Distribution& distribution : std::vector<Distribution>{
           Uniform{nan, 1}, Uniform{-1e308, 1e308}, Normal{kInfinity, 1}, Normal{0, nan},
           TruncatedNormal{0, 0}, TruncatedNormal{0, 1, nan}, Bernoulli{nan}}) {
    EXPECT_NE(refusal(distribution), "");
  }
  EXPECT_THROW(values<float>(kKey, Normal{}, -1, 1), ConfigError);
  EXPECT_THROW(values<float>(kKey, Normal{}, INT64_MAX, 1), ConfigError);
}

}  // namespace
}  // namespace tessera

#include "tessera/generate/sampling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Probabilities 0.5, 0.3, 0.15, 0.05 in another order.
at::Tensor some_logits() {
  const std::vector<double> logits{std::log(0.15), std::log(0.5), std::log(0.05), std::log(0.3)};
  return at::tensor(logits, at::kDouble).unsqueeze(0);
}

std::vector<bool> kept(const SamplingOptions& options) {
  const at::Tensor left = at::isinf(sampled_logits(some_logits(), options))[0];
  std::vector<bool> kept;
  for (int64_t i = 0; i < 4; ++i) kept.push_back(!left[i].item<bool>());
  return kept;
}

TEST(Sampling, KeepsTheLikeliest) {
  EXPECT_EQ(kept({}), (std::vector{true, true, true, true}));
  EXPECT_EQ(kept({.top_k = 2}), (std::vector{false, true, false, true}));
  EXPECT_EQ(kept({.top_k = 9}), (std::vector{true, true, true, true}));
  EXPECT_EQ(kept({.top_p = 0.79}), (std::vector{false, true, false, true}));
  EXPECT_EQ(kept({.top_p = 0.81}), (std::vector{true, true, false, true}));
  EXPECT_EQ(kept({.top_p = 1e-9}), (std::vector{false, true, false, false}));
  // Of the two that top_k leaves, the first has 0.625 of the probability.
  EXPECT_EQ(kept({.top_k = 2, .top_p = 0.6}), (std::vector{false, true, false, false}));
  // A low temperature comes first: 0.5 becomes 0.68, which is enough.
  EXPECT_EQ(kept({.temperature = 0.5, .top_p = 0.6}), (std::vector{false, true, false, false}));
}

TEST(Sampling, DrawsByProbability) {
  constexpr int kDraws = 4000;
  std::vector<int> count(4);
  for (int step = 0; step < kDraws; ++step) {
    ++count.at(static_cast<size_t>(next_tokens(some_logits(), {}, step).item<int64_t>()));
  }
  // Three standard deviations of a share of 4,000 draws are at most 0.024.
  const std::vector<double> expected{0.15, 0.5, 0.05, 0.3};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(count[i] / double{kDraws}, expected[i], 0.024) << i;
}

TEST(Sampling, RepeatsItselfBySeed) {
  const at::Tensor rows = some_logits().repeat({50, 1});
  const at::Tensor first = next_tokens(rows, {.seed = 1}, 0);
  EXPECT_TRUE(first.equal(next_tokens(rows, {.seed = 1}, 0)));
  EXPECT_FALSE(first.equal(next_tokens(rows, {.seed = 2}, 0)));
  EXPECT_FALSE(first.equal(next_tokens(rows, {.seed = 1}, 1)));
  EXPECT_EQ(next_tokens(rows, {.temperature = 0}, 0).sum().item<int64_t>(), 50);
}

TEST(Sampling, RefusesLogitsThatAreNotFinite) {
  for (const double wrong : {double{NAN}, double{INFINITY}}) {
    const at::Tensor logits = some_logits().clone();
    logits[0][2] = wrong;
    EXPECT_THROW(next_tokens(logits, {}, 0), DataError);
    EXPECT_THROW(next_tokens(logits, {.temperature = 0}, 0), DataError);
  }
}

TEST(Sampling, RefusesWhatIsNoDistribution) {
  EXPECT_THROW(check(SamplingOptions{.temperature = 1e-40}), ConfigError);
  EXPECT_THROW(check(SamplingOptions{.temperature = -1}), ConfigError);
  EXPECT_THROW(check(SamplingOptions{.temperature = NAN}), ConfigError);
  EXPECT_THROW(check(SamplingOptions{.top_k = -1}), ConfigError);
  EXPECT_THROW(check(SamplingOptions{.top_p = 0}), ConfigError);
  EXPECT_THROW(check(SamplingOptions{.top_p = 1.1}), ConfigError);
}

}  // namespace
}  // namespace tessera

#include "tessera/layer/rotary.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/format/llama_config.h"
#include "tests/testkit/device.h"

namespace tessera {
namespace {

using testkit::here;

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

LlamaConfig config_with(std::optional<Llama3RopeScaling> scaling) {
  LlamaConfig config;
  config.head_dim = 16;
  config.rope_scaling = scaling;
  return config;
}

RotaryTable table_for(int64_t positions) {
  return rotary_table(rotary_frequencies(config_with(std::nullopt)), positions, here(at::kDouble));
}

TEST(Rotary, TurnsEachPairByItsAngle) {
  const at::Tensor heads = at::rand({2, 5, 3, 16}, here(at::kDouble));
  const at::Tensor turned = rotate(heads, table_for(5));
  const double angle = 4 * std::pow(10000.0, -3.0 / 8);  // Position 4, pair 3.
  const auto at = [](const at::Tensor& x, int64_t i) { return x[1][4][2][i].item<double>(); };
  EXPECT_NEAR(at(turned, 3), at(heads, 3) * std::cos(angle) - at(heads, 11) * std::sin(angle),
              1e-14);
  EXPECT_NEAR(at(turned, 11), at(heads, 11) * std::cos(angle) + at(heads, 3) * std::sin(angle),
              1e-14);
}

// Rotations keep lengths, so the gradient of half the square is the inverse rotation of the
// result: the input.
TEST(Rotary, GradientIsTurnedBack) {
  const at::Tensor heads = at::rand({2, 5, 3, 16}, here(at::kDouble)).requires_grad_();
  rotate(heads, table_for(5)).square().sum().mul(0.5).backward();
  EXPECT_LT(largest_difference(heads.grad(), heads), 1e-14);
}

TEST(Rotary, TurnsQueriesAndKeysOfALayer) {
  const at::Tensor all = at::rand({2, 5, 7, 16}, here(at::kDouble)).requires_grad_();
  const std::vector<at::Tensor> parts = all.split_with_sizes({3, 2, 2}, 2);
  const Heads turned = rotate({parts[0], parts[1], parts[2]}, table_for(5), /*reuses=*/false);
  EXPECT_TRUE(turned.queries.equal(rotate(parts[0], table_for(5))));
  EXPECT_TRUE(turned.keys.equal(rotate(parts[1], table_for(5))));
  EXPECT_TRUE(turned.values.equal(parts[2]));
  const auto half_square = [](const at::Tensor& x) { return x.square().sum().mul(0.5); };
  (half_square(turned.queries) + half_square(turned.keys) + half_square(turned.values)).backward();
  EXPECT_LT(largest_difference(all.grad(), all), 1e-14);
}

TEST(Rotary, Llama3KeepsFastTurnsAndSlowsSlowOnes) {
  const std::vector<double> plain = rotary_frequencies(config_with(std::nullopt));
  const std::vector<double> scaled = rotary_frequencies(
      config_with(Llama3RopeScaling{.factor = 8, .original_max_position_embeddings = 64}));
  EXPECT_EQ(scaled.front(), plain.front());
  EXPECT_DOUBLE_EQ(scaled.back(), plain.back() / 8);
  EXPECT_LT(scaled[1], plain[1]);
  EXPECT_GT(scaled[1], plain[1] / 8);
}

}  // namespace
}  // namespace tessera

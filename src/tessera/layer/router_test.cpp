#include "tessera/layer/router.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

std::vector<int64_t> values(const at::Tensor& x) {
  const at::Tensor flat = x.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

at::Tensor logits(std::vector<double> row) {
  return at::tensor(row, at::kDouble).unsqueeze(0);
}

TEST(Router, EqualScoresGoToTheLowestIndex) {
  EXPECT_EQ(values(route(at::zeros({2, 8}), {.top_k = 3}).experts),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values(route(logits({1, 5, 0, 5, 5}), {.top_k = 2}).experts),
            (std::vector<int64_t>{1, 3}));
}

TEST(Router, SoftmaxBeforeOrAfterTheChoice) {
  const at::Tensor x = at::rand({16, 8}, at::kDouble);
  const Routing first = route(x, {.top_k = 3});
  const Routing after = route(x, {.top_k = 3, .score_first = false, .normalize = false});
  EXPECT_TRUE(first.experts.equal(after.experts));
  EXPECT_TRUE(first.weights.allclose(after.weights));  // Both add up to 1.
  const Routing plain = route(x, {.top_k = 3, .normalize = false});
  EXPECT_TRUE(plain.weights.allclose(at::softmax(x, 1).gather(1, plain.experts)));
}

TEST(Router, ABiasChoosesButDoesNotWeigh) {
  const at::Tensor x = logits({0, 1, 2, 3});
  const Routing routing =
      route(x, {.top_k = 1, .score = RouterScore::kSigmoid, .normalize = false, .scale = 2},
            at::tensor({1.0, 0.0, 0.0, 0.0}, at::kDouble));
  EXPECT_EQ(values(routing.experts), std::vector<int64_t>{0});
  EXPECT_DOUBLE_EQ(routing.weights.item<double>(), 1);  // 2 · sigmoid(0)
}

// Groups {0, 1}, {2, 3} and {4, 5}. By their two best scores the second group is the best, though
// the single best expert is 4; of each two groups, one expert counts.
TEST(Router, TokensStayInTheirBestGroups) {
  const at::Tensor x = logits({1, -9, 3, 2.9, 5, -9});
  RouterOptions options{.top_k = 2, .score = RouterScore::kSigmoid, .num_groups = 3};
  EXPECT_EQ(values(route(x, options).experts), (std::vector<int64_t>{2, 3}));
  options.top_groups = 2;
  EXPECT_EQ(values(route(x, options).experts), (std::vector<int64_t>{4, 2}));
}

TEST(Router, BiasMovesTowardsTheMean) {
  const at::Tensor bias = at::zeros({4});
  update_bias_(bias, at::tensor({4.0, 1.0, 2.0, 1.0}, at::kDouble), 0.5);
  EXPECT_TRUE(bias.equal(at::tensor({-0.5F, 0.5F, 0.0F, 0.5F})));
}

TEST(Router, OptionsThatDoNotFitAreRefused) {
  const auto refusal = [](const RouterOptions& options) {
    return testkit::message_of<ConfigError>([&] { check(options, 4); });
  };
  EXPECT_EQ(refusal({.top_k = 5}), "top_k=5; a token can visit from 1 to 4 experts");
  EXPECT_EQ(refusal({.num_groups = 3}), "num_groups=3 does not divide 4 experts; choose a divisor");
  EXPECT_NE(refusal({.top_k = 3, .num_groups = 2}).find("only have 2 experts"), std::string::npos);
  EXPECT_NE(refusal({.top_k = 1, .score_first = false}).find("always 1"), std::string::npos);
}

}  // namespace
}  // namespace tessera

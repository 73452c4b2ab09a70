#include "tessera/layer/tokens.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

at::Tensor ids(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong).unsqueeze(0);
}

TEST(Tokens, OutsideTheVocabularyAreNamedWithTheirPlace) {
  const at::Tensor weight = at::rand({10, 4});
  EXPECT_EQ(message_of<ConfigError>([&] { embed(ids({3, 10, 2}), weight); }),
            "token id 10 at [0, 1] is outside the vocabulary of 10; ids must be from 0 to 9");
  EXPECT_EQ(message_of<ConfigError>([&] { embed(ids({-1}), weight); }),
            "token id -1 at [0, 0] is outside the vocabulary of 10; ids must be from 0 to 9");
  EXPECT_TRUE(embed(ids({9, 0}), weight)[0][0].equal(weight[9]));
}

TEST(Tokens, OfAnotherShapeOrDtypeAreRefused) {
  EXPECT_THROW(check_tokens(at::zeros({3}, at::kLong), 10), ConfigError);
  EXPECT_THROW(check_tokens(at::zeros({0, 3}, at::kLong), 10), ConfigError);
  EXPECT_EQ(message_of<ConfigError>([] { check_tokens(at::zeros({1, 3}, at::kInt), 10); }),
            "tokens have shape [1, 3] and dtype Int; pass at least one row of [batch, positions] "
            "as int64 (Long)");
}

TEST(TokenLoss, IsTheMeanCrossEntropyInSinglePrecision) {
  const at::Tensor logits = at::zeros({1, 3, 8}, at::kBFloat16);
  const at::Tensor loss = token_loss(logits, ids({0, 7, 3}));
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), std::log(8.0), 1e-6);
}

TEST(TokenLoss, RefusesTargetsOfAnotherShapeOrVocabulary) {
  const at::Tensor logits = at::zeros({1, 3, 8});
  EXPECT_THROW(token_loss(logits, ids({0, 7})), ConfigError);
  EXPECT_THROW(token_loss(logits, ids({0, 8, 3})), ConfigError);
  EXPECT_THROW(token_loss_sum(logits, ids({0, 7}), kIgnoredTarget), ConfigError);
  EXPECT_EQ(
      message_of<ConfigError>(
          [&] { token_loss_sum(logits, ids({0, 7, 3}).to(at::kInt), kIgnoredTarget); }),
      "targets are Int on cpu; convert them to int64 (Long) on cpu, the device of the logits");
}

}  // namespace
}  // namespace tessera

// Rows of experts: their order, their products and their gradients, compared with a loop.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/base/error.h"
#include "tessera/layer/grouped_linear.h"
#include "tessera/layer/router_balance.h"
#include "tessera/layer/token_order.h"
#include "tests/testkit/device.h"

namespace tessera {
namespace {

using testkit::here;

ExpertWeights weights_of(int64_t experts, int64_t outputs, int64_t inputs) {
  ExpertWeights weights;
  for (int64_t i = 0; i < experts; ++i) {
    weights.push_back(at::randn({outputs, inputs}, here(at::kDouble)).requires_grad_());
  }
  return weights;
}

// transformers' way: expert by expert, each on the tokens that chose it.
at::Tensor looped(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights) {
  at::Tensor sum = at::zeros_like(x);
  for (size_t e = 0; e < weights.size(); ++e) {
    const auto chosen = (routing.experts == static_cast<int64_t>(e)).nonzero();
    const at::Tensor token = chosen.select(1, 0);
    const at::Tensor weight = routing.weights.index({token, chosen.select(1, 1)}).unsqueeze(1);
    if (token.numel() == 0) continue;
    sum = sum.index_add(0, token, at::linear(x.index_select(0, token), weights[e]) * weight);
  }
  return sum;
}

at::Tensor grouped(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights,
                   const Pass& pass = {}) {
  const TokenOrder order = order_by_expert(routing.experts, static_cast<int64_t>(weights.size()));
  const at::Tensor rows = grouped_linear(expert_rows(x, order), order.counts, weights, pass);
  return combine_rows(rows, routing.weights, order);
}

std::vector<at::Tensor> gradients_of(const at::Tensor& y, const at::Tensor& x,
                                     const at::Tensor& logits, const ExpertWeights& weights) {
  for (const at::Tensor& weight : weights) weight.mutable_grad().reset();
  std::vector<at::Tensor> inputs{x, logits};
  y.square().sum().backward({}, std::nullopt, false);
  std::vector<at::Tensor> made{x.grad().clone(), logits.grad().clone()};
  for (const at::Tensor& input : inputs) input.mutable_grad().reset();
  for (const at::Tensor& weight : weights) made.push_back(weight.grad());
  return made;
}

void expect_close(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (!a[i].defined()) continue;
    EXPECT_TRUE(a[i].allclose(b[i], 1e-10, 1e-10)) << i;
  }
}

// With many experts some get no token, and so no gradient.
TEST(Experts, GroupedProductsAreThoseOfALoop) {
  for (const auto& [tokens, experts, top_k] :
       {std::tuple<int64_t, int64_t, int64_t>{24, 4, 2}, {9, 40, 3}, {1, 3, 3}, {600, 2, 1}}) {
    const at::Tensor x = at::randn({tokens, 6}, here(at::kDouble)).requires_grad_();
    const at::Tensor logits = at::randn({tokens, experts}, here(at::kDouble)).requires_grad_();
    const ExpertWeights weights = weights_of(experts, 6, 6);
    const Routing routing = route(logits, {.top_k = top_k, .normalize = top_k > 1});
    const at::Tensor expected = looped(x, routing, weights);
    const at::Tensor y = grouped(x, routing, weights);
    EXPECT_TRUE(y.allclose(expected, 1e-10, 1e-10));
    const auto of_loop =
        gradients_of(looped(x, route(logits, {.top_k = top_k, .normalize = top_k > 1}), weights), x,
                     logits, weights);
    const auto own = gradients_of(y, x, logits, weights);
    expect_close(own, of_loop);
    const WeightGradients later;
    const at::Tensor deferred = grouped(x, route(logits, {.top_k = top_k, .normalize = top_k > 1}),
                                        weights, {.deferred = &later});
    const auto before = gradients_of(deferred, x, logits, weights);
    EXPECT_FALSE(before.back().defined());
    later.run();
    for (size_t i = 0; i < weights.size(); ++i) {
      ASSERT_EQ(weights[i].grad().defined(), of_loop[i + 2].defined());
      if (!weights[i].grad().defined()) continue;
      EXPECT_TRUE(weights[i].grad().allclose(of_loop[i + 2]));
    }
  }
}

TEST(Experts, RowsAreSortedByExpertThenByToken) {
  const at::Tensor experts = at::tensor({2, 0, 0, 2, 2, 1}, at::kLong).view({3, 2});
  const TokenOrder order = order_by_expert(experts, 4);
  EXPECT_EQ(order.counts, (std::vector<int64_t>{2, 1, 3, 0}));
  EXPECT_TRUE(order.tokens.equal(at::tensor({0, 1, 2, 0, 1, 2}, at::kLong)));
  EXPECT_TRUE(order.rows.equal(at::tensor({3, 0, 1, 4, 5, 2}, at::kLong).view({3, 2})));
}

/// Logits of two layers for 2 sequences of 6 tokens, as one batch.
struct Batch {
  std::vector<at::Tensor> logits;
};

Batch any_batch() {
  Batch batch;
  for (int64_t layer = 0; layer < 2; ++layer) {
    batch.logits.push_back(at::randn({2, 6, 5}, at::kDouble).requires_grad_());
  }
  return batch;
}

constexpr int64_t kTopK = 2;

at::Tensor chosen_counts(const at::Tensor& logits) {  // [.., tokens, experts] of 0 and 1
  const Routing routing = route(logits, {.top_k = kTopK});
  return at::one_hot(routing.experts, logits.size(-1)).sum(-2).to(at::kDouble);
}

// The definitions, with plain autograd.
at::Tensor defined_loss(const Batch& batch, const BalanceOptions& o) {
  const double experts = 5;
  at::Tensor loss = at::zeros({}, at::kDouble);
  if (o.kind == BalanceKind::kModel) {
    const at::Tensor all = at::cat({batch.logits[0].flatten(0, 1), batch.logits[1].flatten(0, 1)});
    loss = experts * (chosen_counts(all).mean(0) * at::softmax(all, -1).mean(0)).sum();
  } else {
    for (const at::Tensor& logits : batch.logits) {
      const bool whole = o.kind == BalanceKind::kLayer;
      const at::Tensor rows = whole ? logits.flatten(0, 1).unsqueeze(0) : logits;
      const at::Tensor per_row =
          (chosen_counts(rows).mean(1) * at::softmax(rows, -1).mean(1)).sum(-1);
      loss = loss + experts / kTopK * per_row.mean();
    }
  }
  return loss;
}

at::Tensor defined_z(const Batch& batch) {
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const at::Tensor& logits : batch.logits) {
    loss = loss + at::logsumexp(logits, -1).square().mean();
  }
  return loss;
}

at::Tensor joined(RouterBalance& balance, const at::Tensor& logits, int64_t layer) {
  const Routing routing = route(logits, {.top_k = kTopK});
  return balance.join(routing, logits, layer, /*counts=*/true);
}

// In slices of one sequence, after a pass that only counts.
TEST(RouterBalance, EveryKindHasTheGradientOfItsDefinition) {
  for (const BalanceKind kind :
       {BalanceKind::kModel, BalanceKind::kLayer, BalanceKind::kSequence}) {
    const Batch batch = any_batch();
    const BalanceOptions options{.layers = 2,
                                 .experts = 5,
                                 .top_k = kTopK,
                                 .kind = kind,
                                 .coefficient = 0.7,
                                 .z_coefficient = 0.3};
    const at::Tensor loss = defined_loss(batch, options);
    const at::Tensor z = defined_z(batch);
    (0.7 * loss + 0.3 * z).backward();
    RouterBalance balance(options);
    balance.begin(2);
    std::vector<at::Tensor> leaves;
    for (int64_t row = 0; row < 2; ++row) {
      const at::NoGradGuard no_grad;
      for (int64_t layer = 0; layer < 2; ++layer) {
        joined(balance, batch.logits[static_cast<size_t>(layer)].narrow(0, row, 1), layer);
      }
    }
    balance.close();
    for (int64_t layer = 0; layer < 2; ++layer) {
      const at::Tensor whole = batch.logits[static_cast<size_t>(layer)];
      const at::Tensor expected = whole.grad().clone();
      const at::Tensor leaf = whole.detach().clone().requires_grad_();
      for (int64_t row = 0; row < 2; ++row) {
        joined(balance, leaf.narrow(0, row, 1), layer).sum().mul(0).backward();
      }
      EXPECT_TRUE(leaf.grad().allclose(2 * expected, 1e-10, 1e-12)) << static_cast<int>(kind);
    }
    const BalanceResult result = balance.end();
    EXPECT_NEAR(result.loss, loss.item<double>(), 1e-12);
    EXPECT_NEAR(result.z_loss, z.item<double>(), 1e-12);
    EXPECT_EQ(result.counts.sum().item<double>(), 2 * 12 * kTopK);
  }
}

TEST(RouterBalance, SigmoidScoresAreNormalized) {
  const at::Tensor logits = at::randn({1, 6, 5}, at::kDouble).requires_grad_();
  const RouterOptions sigmoid{.top_k = kTopK, .score = RouterScore::kSigmoid};
  const Routing routing = route(logits, sigmoid);
  const at::Tensor counts = at::one_hot(routing.experts, 5).sum(-2).to(at::kDouble);
  const at::Tensor scores = logits.sigmoid();
  const at::Tensor p = scores / scores.sum(-1, true);
  const at::Tensor loss = 5 * (counts.mean(1) * p.mean(1)).sum();
  loss.backward();
  const at::Tensor expected = logits.grad().clone();
  logits.mutable_grad().reset();
  RouterBalance balance({.layers = 1,
                         .experts = 5,
                         .top_k = kTopK,
                         .coefficient = 1,
                         .score = RouterScore::kSigmoid});
  balance.begin(1);
  const at::Tensor weights = balance.join(route(logits, sigmoid), logits, 0, true);
  balance.close();
  weights.sum().mul(0).backward();
  EXPECT_TRUE(logits.grad().allclose(expected, 1e-10, 1e-12));
  EXPECT_NEAR(balance.end().loss, loss.item<double>(), 1e-12);
}

TEST(RouterBalance, ABackwardPassBeforeTheCountsAreCompleteIsRefused) {
  const at::Tensor logits = at::randn({1, 6, 5}, at::kDouble).requires_grad_();
  RouterBalance balance({.layers = 1, .experts = 5, .top_k = kTopK, .coefficient = 1});
  balance.begin(1);
  const at::Tensor weights = joined(balance, logits, 0);
  EXPECT_THROW(weights.sum().backward(), StateError);
}

}  // namespace
}  // namespace tessera

// A layer of experts, from tokens and their choices to the sums of the results, forward and
// backward: sorted rows and grouped products, against a loop of linear layers over the same tokens,
// as in transformers, and against the same loop over rows that are sorted already.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <benchmark/benchmark.h>
#include <malloc.h>

#include "tessera/layer/grouped_linear.h"
#include "tessera/layer/router.h"
#include "tessera/layer/token_order.h"

namespace tessera {
namespace {

constexpr int64_t kTokens = 2048;
constexpr int64_t kTopK = 2;
constexpr int64_t kHidden = 256;
constexpr int64_t kWidth = 384;

// Freed memory is used again, as in `tessera train`.
const bool kKeepsMemory = [] {
  return mallopt(M_MMAP_THRESHOLD, 32 << 20) + mallopt(M_TRIM_THRESHOLD, 1 << 30) == 2;
}();

/// Tokens that chose their experts at random.
struct Case {
  explicit Case(int64_t experts)
      : x(at::randn({kTokens, kHidden}).requires_grad_()),
        weights(at::rand({kTokens, kTopK}).requires_grad_()),
        gradient(at::randn({kTokens, kHidden})) {
    chosen = route(at::randn({kTokens, experts}), {.top_k = kTopK}).experts;
    for (int64_t i = 0; i < experts; ++i) {
      gate.push_back(at::randn({kWidth, kHidden}).div_(16).requires_grad_());
      up.push_back(at::randn({kWidth, kHidden}).div_(16).requires_grad_());
      down.push_back(at::randn({kHidden, kWidth}).div_(16).requires_grad_());
    }
  }

  void backward(const at::Tensor& y) const {
    y.backward(gradient);
    for (const ExpertWeights* const list : {&gate, &up, &down}) {
      for (const at::Tensor& weight : *list) weight.mutable_grad().reset();
    }
    x.mutable_grad().reset();
    weights.mutable_grad().reset();
  }

  at::Tensor one_expert(const at::Tensor& rows, size_t i) const {
    const at::Tensor wide = at::silu(at::linear(rows, gate[i])) * at::linear(rows, up[i]);
    return at::linear(wide, down[i]);
  }

  at::Tensor x, weights, gradient, chosen;
  ExpertWeights gate, up, down;
};

void BM_GroupedExperts(benchmark::State& state) {
  const Case c(state.range(0));
  for (const auto unused : state) {
    const TokenOrder order = order_by_expert(c.chosen, state.range(0));
    const std::vector<at::Tensor> wide =
        grouped_linear(expert_rows(c.x, order), order.counts, std::array{c.gate, c.up});
    const at::Tensor rows = grouped_linear(at::silu(wide[0]) * wide[1], order.counts, c.down);
    c.backward(combine_rows(rows, c.weights, order));
  }
}

void BM_LoopOfLinears(benchmark::State& state) {
  const Case c(state.range(0));
  for (const auto unused : state) {
    const at::Tensor sum = at::zeros({kTokens, kHidden});
    for (size_t i = 0; i < c.gate.size(); ++i) {
      const at::Tensor pairs = (c.chosen == static_cast<int64_t>(i)).nonzero();
      const at::Tensor tokens = pairs.select(1, 0);
      const at::Tensor weights = c.weights.index({tokens, pairs.select(1, 1)}).unsqueeze(1);
      sum.index_add_(0, tokens, c.one_expert(c.x.index({tokens}), i) * weights);
    }
    c.backward(sum);
  }
}

void BM_LoopOverSortedRows(benchmark::State& state) {
  const Case c(state.range(0));
  for (const auto unused : state) {
    const TokenOrder order = order_by_expert(c.chosen, state.range(0));
    const std::vector<at::Tensor> parts = expert_rows(c.x, order).split_with_sizes(order.counts);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < parts.size(); ++i) results.push_back(c.one_expert(parts[i], i));
    c.backward(combine_rows(at::cat(results), c.weights, order));
  }
}

BENCHMARK(BM_GroupedExperts)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_LoopOfLinears)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_LoopOverSortedRows)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace tessera

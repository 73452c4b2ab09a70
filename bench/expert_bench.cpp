// The products of experts: sorted rows and grouped products against a loop of linear layers over
// the same rows. Forward and backward of gate, up and down with SiLU.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <benchmark/benchmark.h>

#include "tessera/layer/grouped_linear.h"
#include "tessera/layer/token_order.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 4096;  // 2048 tokens, two experts each.
constexpr int64_t kHidden = 256;
constexpr int64_t kWidth = 384;

/// Rows that chose their experts at random.
struct Case {
  explicit Case(int64_t experts)
      : order(order_by_expert(at::randint(experts, {kRows / 2, 2}), experts)),
        rows(at::randn({kRows, kHidden}).requires_grad_()),
        gradient(at::randn({kRows, kHidden})) {
    for (int64_t i = 0; i < experts; ++i) {
      gate.push_back(at::randn({kWidth, kHidden}).div_(16).requires_grad_());
      up.push_back(at::randn({kWidth, kHidden}).div_(16).requires_grad_());
      down.push_back(at::randn({kHidden, kWidth}).div_(16).requires_grad_());
    }
  }

  void backward(const at::Tensor& y) const {
    y.backward(gradient);
    for (const ExpertWeights* const weights : {&gate, &up, &down}) {
      for (const at::Tensor& weight : *weights) weight.mutable_grad().reset();
    }
    rows.mutable_grad().reset();
  }

  TokenOrder order;
  at::Tensor rows, gradient;
  ExpertWeights gate, up, down;
};

void BM_GroupedExperts(benchmark::State& state) {
  const Case c(state.range(0));
  for (const auto unused : state) {
    const std::vector<at::Tensor> wide =
        grouped_linear(c.rows, c.order.counts, std::array{c.gate, c.up});
    c.backward(grouped_linear(at::silu(wide[0]) * wide[1], c.order.counts, c.down));
  }
}

// One split and one concatenation, so that the loop does nothing but linear layers.
void BM_LoopOfLinears(benchmark::State& state) {
  const Case c(state.range(0));
  for (const auto unused : state) {
    const std::vector<at::Tensor> parts = c.rows.split_with_sizes(c.order.counts);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < parts.size(); ++i) {
      const at::Tensor wide =
          at::silu(at::linear(parts[i], c.gate[i])) * at::linear(parts[i], c.up[i]);
      results.push_back(at::linear(wide, c.down[i]));
    }
    c.backward(at::cat(results));
  }
}

BENCHMARK(BM_GroupedExperts)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_LoopOfLinears)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace tessera

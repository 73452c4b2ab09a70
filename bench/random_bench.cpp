// Values per second of the initialisers, and of torch's own beside them, on one thread.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <benchmark/benchmark.h>

#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;

const RandomKey kKey{.seed = 1, .name = "w"};

template <class Fill>
void measure(benchmark::State& timing, at::ScalarType type, Fill fill) {
  at::set_num_threads(1);
  const at::Tensor tensor = at::empty({1'024, timing.range(0) / 1'024}, type);
  for (auto _ : timing) fill(tensor);
  timing.SetItemsProcessed(timing.iterations() * tensor.numel());
}

void ours(benchmark::State& timing, at::ScalarType type, const Distribution& distribution) {
  measure(timing, type, [&](const at::Tensor& tensor) {
    const Shape shape = tensor.sizes().vec();
    init_(tensor, Box{shape, {0, 0}}, shape, kKey, distribution);
  });
}

/// A part of the columns, so that every row is a run of its own.
void columns(benchmark::State& timing, at::ScalarType type, const Distribution& distribution) {
  measure(timing, type, [&](const at::Tensor& tensor) {
    const Shape shape = tensor.sizes().vec();
    init_(tensor, Box{shape, {0, 3}}, Shape{shape[0], shape[1] + 8}, kKey, distribution);
  });
}

void torch_normal(benchmark::State& timing, at::ScalarType type) {
  measure(timing, type, [](const at::Tensor& tensor) { tensor.normal_(0, 0.02); });
}

void torch_uniform(benchmark::State& timing, at::ScalarType type) {
  measure(timing, type, [](const at::Tensor& tensor) { tensor.uniform_(-1, 1); });
}

constexpr int64_t kLarge = 1 << 22;
constexpr int64_t kNarrow = 1 << 16;  // 64 columns.

BENCHMARK_CAPTURE(ours, normal_float, at::kFloat, Normal{0, 0.02})->Arg(kLarge);
BENCHMARK_CAPTURE(torch_normal, float, at::kFloat)->Arg(kLarge);
BENCHMARK_CAPTURE(columns, normal_float, at::kFloat, Normal{0, 0.02})->Arg(kNarrow);
BENCHMARK_CAPTURE(ours, truncated_float, at::kFloat, TruncatedNormal{})->Arg(kLarge);
BENCHMARK_CAPTURE(ours, normal_double, at::kDouble, Normal{0, 0.02})->Arg(kLarge);
BENCHMARK_CAPTURE(torch_normal, double, at::kDouble)->Arg(kLarge);
BENCHMARK_CAPTURE(ours, normal_bfloat16, at::kBFloat16, Normal{0, 0.02})->Arg(kLarge);
BENCHMARK_CAPTURE(torch_normal, bfloat16, at::kBFloat16)->Arg(kLarge);
BENCHMARK_CAPTURE(ours, uniform_float, at::kFloat, Uniform{-1, 1})->Arg(kLarge);
BENCHMARK_CAPTURE(torch_uniform, float, at::kFloat)->Arg(kLarge);

}  // namespace
}  // namespace tessera

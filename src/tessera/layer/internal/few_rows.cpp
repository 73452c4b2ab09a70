#include "tessera/layer/internal/few_rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::layer::detail {
namespace {

constexpr int64_t kMostRows = 32;

#if defined(__x86_64__)
#define TSR_VECTORS __attribute__((target("avx2,fma")))
#define TSR_INLINE inline __attribute__((always_inline))
// Whole tiles: their sums only stay in registers if no loop over them is left.
#if defined(__clang__)
#define TSR_UNROLLED _Pragma("unroll")
#else
#define TSR_UNROLLED _Pragma("GCC unroll 8")
#endif

constexpr int64_t kLanes = 8;
constexpr int64_t kGrain = 1 << 16;  // Weights per thread at least.

bool has_vectors() {
  static const bool kHas = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return kHas;
}

/// The operands of a product: y [rows, outputs] of x [rows, inputs] and w [outputs, inputs].
struct Product {
  const float* x;
  const float* w;
  const float* bias;  // May be null.
  float* y;
  int64_t rows, inputs, outputs;
};

TSR_VECTORS TSR_INLINE float sum_of(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// kRows rows of x with kOutputs rows of w. Every result is summed in the same order, whatever the
// shape of the tile. The tile that is read next comes into the cache meanwhile.
template <int kRows, int kOutputs>
TSR_VECTORS void tile(const Product& of, int64_t row, int64_t output) {
  const float* const x = of.x + row * of.inputs;
  const float* const w = of.w + output * of.inputs;
  const int64_t whole = of.inputs - of.inputs % kLanes;
  const int64_t ahead = kOutputs * of.inputs;
  __m256 sums[kRows][kOutputs] = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
    __m256 weights[kOutputs];
    TSR_UNROLLED for (int n = 0; n < kOutputs; ++n) {
      weights[n] = _mm256_loadu_ps(w + n * of.inputs + i);
      if (kRows > 1) {
        _mm_prefetch(reinterpret_cast<const char*>(w + ahead + n * of.inputs + i), _MM_HINT_T0);
      }
    }
    TSR_UNROLLED for (int m = 0; m < kRows; ++m) {
      const __m256 values = _mm256_loadu_ps(x + m * of.inputs + i);
      TSR_UNROLLED for (int n = 0; n < kOutputs; ++n) {
        sums[m][n] = _mm256_fmadd_ps(values, weights[n], sums[m][n]);
      }
    }
  }
  TSR_UNROLLED for (int m = 0; m < kRows; ++m) {
    TSR_UNROLLED for (int n = 0; n < kOutputs; ++n) {
      float sum = sum_of(sums[m][n]);
      for (int64_t i = whole; i < of.inputs; ++i)
        sum += x[m * of.inputs + i] * w[n * of.inputs + i];
      if (of.bias != nullptr) sum += of.bias[output + n];
      of.y[(row + m) * of.outputs + output + n] = sum;
    }
  }
}

// All rows with the outputs [begin, end). As many sums at once as there are registers for.
template <int kRows, int kOutputs>
void outputs_in_tiles(const Product& of, int64_t begin, int64_t end) {
  const auto rows_of = [&]<int kCount>(int64_t output, std::integral_constant<int, kCount>) {
    int64_t row = 0;
    for (; row + kRows <= of.rows; row += kRows) tile<kRows, kCount>(of, row, output);
    for (; row < of.rows; ++row) tile<1, kCount>(of, row, output);
  };
  int64_t output = begin;
  for (; output + kOutputs <= end; output += kOutputs) {
    rows_of(output, std::integral_constant<int, kOutputs>());
  }
  for (; output < end; ++output) rows_of(output, std::integral_constant<int, 1>());
}

void compute(const Product& of) {
  const int64_t grain = std::max<int64_t>(1, kGrain / of.inputs);
  at::parallel_for(0, of.outputs, grain, [&](int64_t begin, int64_t end) {
    if (of.rows == 1) return outputs_in_tiles<1, 8>(of, begin, end);
    if (of.rows < 4) return outputs_in_tiles<2, 4>(of, begin, end);
    outputs_in_tiles<4, 3>(of, begin, end);
  });
}
#else
bool has_vectors() {
  return false;
}
#endif

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat;
}

}  // namespace

bool is_of_few_rows(const at::Tensor& x, const at::Tensor& weight) {
  return c10::InferenceMode::is_enabled() && has_vectors() && is_plain(x) && is_plain(weight) &&
         weight.dim() == 2 && weight.is_contiguous() && weight.numel() > 0 && x.dim() > 0 &&
         x.size(-1) == weight.size(1) && x.numel() > 0 && x.numel() <= kMostRows * x.size(-1);
}

at::Tensor few_rows_product(const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
#if defined(__x86_64__)
  const at::Tensor rows = x.contiguous();
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  at::Tensor y = at::empty(shape, x.options());
  const at::Tensor added = bias ? bias->contiguous() : at::Tensor();
  compute({.x = rows.const_data_ptr<float>(),
           .w = weight.const_data_ptr<float>(),
           .bias = added.defined() ? added.const_data_ptr<float>() : nullptr,
           .y = y.mutable_data_ptr<float>(),
           .rows = x.numel() / weight.size(1),
           .inputs = weight.size(1),
           .outputs = weight.size(0)});
  return y;
#else
  return at::linear(x, weight, bias);
#endif
}

}  // namespace tessera::layer::detail

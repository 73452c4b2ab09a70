#include "tessera/layer/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>

#include <limits>
#include <utility>

#include "tessera/kernel/fp8.h"
#include "tessera/layer/unit.h"

namespace tessera {
namespace {

constexpr int64_t kMultiple = 16;  // Of sizes, for the products of a GPU.
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Values in float8; each times its scale is what was rounded.
struct Rounded {
  at::Tensor values;
  at::Tensor scales;  // [rows, 1], or one number.
};

Rounded round_rows(const at::Tensor& matrix, Fp8 fp8) {
  const bool by_rows = fp8 == Fp8::kRowwise;
  at::Tensor largest;
  if (!by_rows) largest = at::linalg_vector_norm(matrix, kInfinity).to(at::kFloat);
  if (has_fp8_kernels(matrix)) {
    const GpuFp8Rows made = fp8_rows_on_gpu(matrix, largest);
    return {made.values, by_rows ? made.scales : made.scales[0][0]};
  }
  if (by_rows) largest = at::linalg_vector_norm(matrix, kInfinity, 1, true).to(at::kFloat);
  largest.clamp_min_(kSmallestFp8Row);
  const at::Tensor scaled = matrix.to(at::kFloat) * (kLargestFp8 / largest);
  return {scaled.contiguous().to(at::kFloat8_e4m3fn), largest / kLargestFp8};
}

// LibTorch's own product for CPUs knows scales of rows only in newer versions. Products of float8
// are exact in float32.
at::Tensor product_on_cpu(const Rounded& left, const Rounded& right, const at::Tensor& columns) {
  const at::Tensor sums = at::mm(left.values.to(at::kFloat), right.values.to(at::kFloat).t());
  return sums.mul_(left.scales).mul_(columns).to(at::kBFloat16);
}

Unit with_fp8(Unit unit, Fp8 fp8) {
  unit.forward = [forward = std::move(unit.forward), fp8](const at::Tensor& x, const Pass& pass) {
    Pass changed = pass;
    changed.fp8 = fp8;
    return forward(x, changed);
  };
  return unit;
}

}  // namespace

bool takes_fp8(const at::Tensor& a, const at::Tensor& b, Fp8 fp8) {
  const auto is_narrow = [](const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; };
  return fp8 != Fp8::kNone && is_narrow(a) && is_narrow(b) && a.numel() > 0 && b.numel() > 0 &&
         b.size(0) % kMultiple == 0 && b.size(1) % kMultiple == 0;
}

at::Tensor fp8_product(const at::Tensor& a, const at::Tensor& b, Fp8 fp8) {
  const Rounded left = round_rows(a, fp8);
  const Rounded right = round_rows(b, fp8);
  const at::Tensor columns = fp8 == Fp8::kRowwise ? right.scales.t() : right.scales;
  if (a.is_cpu()) return product_on_cpu(left, right, columns);
  return at::_scaled_mm(left.values, right.values.t(), left.scales, columns, /*bias=*/{},
                        /*scale_result=*/{}, at::kBFloat16, /*use_fast_accum=*/true);
}

Model with_fp8(Model model, Fp8 fp8, const Span& units) {
  model.build = [build = std::move(model.build), fp8, units](Span built) {
    std::vector<Unit> made = build(built);
    for (size_t i = 0; i < made.size(); ++i) {
      const int64_t index = built.begin + static_cast<int64_t>(i);
      const bool is_meant = units.begin <= index && index < units.end;
      if (is_meant) made[i] = with_fp8(std::move(made[i]), fp8);
    }
    return made;
  };
  return model;
}

}  // namespace tessera

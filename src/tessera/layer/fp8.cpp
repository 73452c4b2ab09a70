#include "tessera/layer/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_mm.h>

#include <utility>

#include "tessera/layer/unit.h"

namespace tessera {
namespace {

constexpr int64_t kMultiple = 16;    // Of sizes, for the kernels of a GPU.
constexpr double kLargest = 448;     // Of e4m3.
constexpr double kSmallest = 1e-12;  // A row of zeros has a scale, too.

/// Values in float8; each times its scale is what was rounded.
struct Rounded {
  at::Tensor values;
  at::Tensor scales;  // [rows, 1], or one number.
};

Rounded round_rows(const at::Tensor& matrix, Fp8 fp8) {
  const at::Tensor sizes = matrix.abs();
  const at::Tensor largest = fp8 == Fp8::kRowwise ? sizes.amax(1, /*keepdim=*/true) : sizes.max();
  const at::Tensor scales = largest.to(at::kFloat).clamp_min(kSmallest).div_(kLargest);
  return {(matrix.to(at::kFloat) / scales).contiguous().to(at::kFloat8_e4m3fn), scales};
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

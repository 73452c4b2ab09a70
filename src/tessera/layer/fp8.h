#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

struct Model;
struct Span;

/// How the products of linear layers round their operands to float8 (e4m3): a scale for each row,
/// or for each tensor, makes the largest value 448.
enum class Fp8 { kNone, kRowwise, kTensorwise };

/// Whether fp8_product() takes these operands: bfloat16, with multiples of 16 inputs and outputs.
bool takes_fp8(const at::Tensor& a, const at::Tensor& b, Fp8 fp8);

/// a·bᵀ of a [m, k] and b [n, k], in bfloat16. Both are rounded to float8. Sums are in float32 on a
/// CPU; on a GPU they are those of its tensor cores' fast mode, which may keep fewer bits.
at::Tensor fp8_product(const at::Tensor& a, const at::Tensor& b, Fp8 fp8);

/// The model with all three products of the linear layers of some of its units in float8, where
/// takes_fp8(). Embeddings, norms, attention, routers and grouped experts stay as they are. Units
/// get it by Pass::fp8, which an own module may ignore.
Model with_fp8(Model model, Fp8 fp8, const Span& units);

}  // namespace tessera

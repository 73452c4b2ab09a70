#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/kernel/gpu_kernel.h"

namespace tessera TSR_API {

/// The largest value of float8 (e4m3), to which the largest of each row is scaled.
inline constexpr float kLargestFp8 = 448;
/// The scale of a row whose values are all smaller is that of this value, so that zeros have one.
inline constexpr float kSmallestFp8Row = 1e-12F;

/// The rows of a matrix in float8; each value times the scale of its row is what was rounded.
struct GpuFp8Rows {
  at::Tensor values;  // float8, contiguous.
  at::Tensor scales;  // float32, [rows, 1].
};

/// ConfigError if a GPU of this compute capability has no float8: the first with it is 8.9.
void check_fp8(GpuCapability capability);
/// The same for a GPU of this machine, with its index. Other devices pass.
void check_fp8(at::Device device);

/// Whether fp8_rows_on_gpu() takes it: a matrix with has_kernels() whose rows or columns are
/// contiguous, on a GPU with float8.
bool has_fp8_kernels(const at::Tensor& matrix);

/// Rounds each row by its largest value, or by `largest`, one float32 number, if that is defined.
/// A matrix that is contiguous by columns is transposed on the way.
GpuFp8Rows fp8_rows_on_gpu(const at::Tensor& matrix, const at::Tensor& largest);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Rotates pairs of elements (i, i + half) of `heads` [batch, positions, heads, size] into `out`,
/// which may be `heads` itself. `sign` -1 rotates in the other direction. Needs has_kernels();
/// the table is of the same dtype, see RotaryTable.
void rotate_on_gpu(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
                   double sign, const at::Tensor& out);

/// Copies heads between layouts in which the elements of a head are neighbours.
void copy_heads_on_gpu(const at::Tensor& heads, const at::Tensor& out);

}  // namespace tessera

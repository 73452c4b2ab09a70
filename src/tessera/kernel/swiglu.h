#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// silu(gate)·up for [rows, width], whose rows may lie apart. Needs has_kernels().
at::Tensor swiglu_on_gpu(const at::Tensor& gate, const at::Tensor& up);

/// The gradients of gate and up, beside each other in one tensor [rows, 2·width].
at::Tensor swiglu_backward_on_gpu(const at::Tensor& gradient, const at::Tensor& gate,
                                  const at::Tensor& up);

}  // namespace tessera

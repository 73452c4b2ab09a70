#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// silu(gate)·up. On a GPU the gradients lie beside each other in one tensor, as one product for
/// both wants them.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace tessera

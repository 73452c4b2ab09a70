#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// RMS norm: each vector of the last dimension, divided by its root mean square, times `weight`.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace tessera

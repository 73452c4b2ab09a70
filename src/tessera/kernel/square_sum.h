#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The sum of the squares of all elements, a float64 scalar. Needs has_kernels(); the tensors are
/// contiguous and have one dtype.
at::Tensor square_sum_on_gpu(at::TensorList tensors);

}  // namespace tessera

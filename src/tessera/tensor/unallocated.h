#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A tensor with a shape but without memory: reading it is an error. set_data, or a storage of its
/// size, gives it memory; until then a model of any size costs nothing.
at::Tensor unallocated(at::IntArrayRef shape, const at::TensorOptions& options);

/// Whether it has elements but no memory.
bool is_unallocated(const at::Tensor& tensor);

}  // namespace tessera

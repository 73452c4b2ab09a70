#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

namespace tessera TSR_API {

/// Uninitialized memory for a tensor that the group sends or receives. Ranks of one host read each
/// other's large buffers where they lie; any other tensor is copied to them first. Freed buffers
/// are used again. If there is no such memory, or the program has set a CPU allocator of its own,
/// it is ordinary.
at::Tensor empty_buffer(at::IntArrayRef shape, const at::TensorOptions& options,
                        const Group& group);

}  // namespace tessera

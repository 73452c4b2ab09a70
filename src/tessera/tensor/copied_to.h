#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The tensor on the device. A copy from the host to a GPU leaves from pinned memory, so that the
/// host does not wait for what the GPU does before.
at::Tensor copied_to(at::Device device, const at::Tensor& tensor);

}  // namespace tessera

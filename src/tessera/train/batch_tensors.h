#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/data/batches.h"

namespace tessera TSR_API {

/// The rows of a batch as the model takes them.
struct BatchTensors {
  at::Tensor inputs;   // [rows, seq], int64
  at::Tensor targets;  // [rows, seq], int64: each the token after its input.
};

/// Takes the rows' memory; copies to other devices.
BatchTensors to_tensors(BatchRows rows, at::Device device = at::kCPU);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/optim/optimizer.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/parameter.h"
#include "tessera/topology/box.h"

namespace torch::nn {
class Module;
}

namespace tessera TSR_API {

/// A tensor to save or to load into.
struct CheckpointEntry {
  /// The full tensor, the same on all ranks.
  CheckpointEntry(std::string name, at::Tensor tensor);
  /// A part: its elements, flattened, are those of its boxes, one after the other.
  CheckpointEntry(std::string name, at::Tensor tensor, const Part& part);
  /// ConfigError for a Partial tensor and for a strided shard.
  CheckpointEntry(std::string name, const DTensor& tensor);

  std::string name;                 // In the checkpoint.
  at::Tensor tensor;                // This rank's part. A handle: loading changes it in place.
  std::vector<int64_t> shape = {};  // Of the full tensor; [1] for a scalar.
  std::vector<Box> boxes = {};      // Where that part lies in the full tensor; empty: no elements.
};

/// What one rank saves or loads.
using CheckpointEntries = std::vector<CheckpointEntry>;

/// The parameters under their names.
CheckpointEntries entries_of(const Parameters& parameters);
/// The state of an optimizer of these parameters, as "optim.state.NAME.KIND".
CheckpointEntries entries_of(const Optimizer& optimizer, const Parameters& parameters);
/// The parameters and buffers of a module that is the same on all ranks.
CheckpointEntries entries_of(const torch::nn::Module& module);

/// "optim.state.NAME.KIND".
std::string state_name(const std::string& parameter, const std::string& kind);

}  // namespace tessera

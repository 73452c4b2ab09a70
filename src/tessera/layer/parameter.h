#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// A parameter and the name under which files know it. The tensor is a handle: who trains or fills
/// it changes the model.
struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

using NamedParameters = std::vector<NamedParameter>;

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A parameter and the name under which files know it. The tensor is a handle: who trains or fills
/// it changes the model.
struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

using NamedParameters = std::vector<NamedParameter>;

/// Where the values of a parameter come from: from the parameter itself, or from another rank that
/// holds them.
using ParameterSource = std::function<at::Tensor(const NamedParameter&)>;
inline at::Tensor own_values(const NamedParameter& parameter) {
  return parameter.tensor;
}

}  // namespace tessera

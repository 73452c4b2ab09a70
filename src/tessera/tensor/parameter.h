#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/parameter_place.h"

namespace tessera TSR_API {

/// A parameter that knows its whole: the name under which files know it, what this rank holds of
/// it, and where that lies. The tensor is a handle: who trains or fills it changes the model.
///
/// Initial values, loading, saving, clipping, and over whom gradients are summed follow from it.
struct Parameter {
  /// All of it is here, until a strategy says otherwise.
  Parameter(std::string name, at::Tensor tensor, std::optional<size_t> tensor_dim = std::nullopt)
      : name(std::move(name)),
        tensor(std::move(tensor)),
        tensor_dim(tensor_dim),
        place{.part = Part(this->tensor.sizes().vec())} {}

  std::string name;
  at::Tensor tensor;                 // This rank's part.
  std::optional<size_t> tensor_dim;  // The dimension that tensor parallelism may cut.
  ParameterPlace place;
};

using Parameters = std::vector<Parameter>;

/// Where the values of a parameter come from: from the parameter itself, or from another rank that
/// holds them.
using ParameterSource = std::function<at::Tensor(const Parameter&)>;
inline at::Tensor own_values(const Parameter& parameter) {
  return parameter.tensor;
}

}  // namespace tessera

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

/// A parameter on this rank.
///
/// Initialization, loading, saving, clipping and the groups for gradient sums follow from it.
struct Parameter {
  /// The full parameter; a strategy may shard it later.
  Parameter(std::string name, at::Tensor tensor, std::optional<size_t> tensor_dim = std::nullopt)
      : name(std::move(name)),
        tensor(std::move(tensor)),
        tensor_dim(tensor_dim),
        place{.part = Part(this->tensor.sizes().vec())} {}

  std::string name;                  // In files: "model.embed_tokens.weight".
  at::Tensor tensor;                 // This rank's part. A handle: changing it changes the model.
  std::optional<size_t> tensor_dim;  // The dimension that tensor parallelism may shard.
  std::optional<int64_t> tensor_blocks = std::nullopt;  // See ParameterShape.
  std::optional<ExpertOf> expert = std::nullopt;        // See ParameterShape.
  ParameterPlace place;  // The position of this rank's part in the full parameter.
};

/// The parameters of a model, on this rank.
using Parameters = std::vector<Parameter>;

/// Returns the values of a parameter: from the parameter itself, or from another rank that holds
/// them.
using ParameterSource = std::function<at::Tensor(const Parameter&)>;
/// A ParameterSource: this rank's own tensor.
inline at::Tensor own_values(const Parameter& parameter) {
  return parameter.tensor;
}

}  // namespace tessera

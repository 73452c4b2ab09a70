#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/weight_gradients.h"
#include "tessera/tensor/parameter.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// What a forward pass gets besides its input.
struct Pass {
  /// Where layers leave their weight gradients; null if the backward pass computes them itself.
  const WeightGradients* deferred = nullptr;
};

/// A piece of a model that strategies treat as one: pipelines cut between units.
struct Unit {
  std::string name;            // "model.layers.3"
  Parameters parameters = {};  // All that `forward` reads and training changes.
  Parameters buffers = {};     // What it reads besides.
  std::function<at::Tensor(const at::Tensor& x, const Pass& pass)> forward = {};
  /// Whether `forward` leaves the costly weight gradients in Pass::deferred.
  bool defers = false;
};

/// A parameter that two units hold under one name.
struct TiedParameter {
  std::string name;
  int64_t first = 0;   // The unit whose copy counts,
  int64_t second = 0;  // and the other one.
};

/// The mean loss of some rows, a scalar, from what the last unit gave for them.
using ModelLoss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

/// A model as an ordered list of units and a loss. Each rank builds the units that it runs.
///
///   Model model = model_of({module_unit("encoder", encoder), module_unit("head", head)}, loss);
struct Model {
  int64_t num_units = 0;
  /// These units. What is tied within them is one tensor, listed by the first unit that holds it.
  std::function<std::vector<Unit>(Span units)> build = {};
  ModelLoss loss = {};
  /// The units that stages share evenly. Those before them belong to the first stage, those after
  /// them to the last.
  Span layers = {};
  std::vector<TiedParameter> tied = {};
  /// Gives parameters their values; empty if they are built with values. Only parts of them may be
  /// here (Parameter::place).
  std::function<void(const Parameters&)> fill = {};
};

/// A model of units that exist.
Model model_of(std::vector<Unit> units, ModelLoss loss);

/// Which units each stage holds. ConfigError if there are more stages than layers.
std::vector<Span> stage_units(const Model& model, int64_t num_stages);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/weight_gradients.h"

namespace tessera TSR_API {

using Tensors = std::vector<at::Tensor>;

/// What every stage gets besides its inputs, by name: tensors, of which a pass gets its
/// microbatch's rows, and values that are the same for all.
using Keyword = std::variant<at::Tensor, bool, int64_t, double, std::string>;
using Keywords = std::map<std::string, Keyword>;

/// What one forward pass of a stage is told besides its inputs.
struct StagePass {
  int64_t stage = 0;
  int64_t microbatch = 0;
  const Keywords* keywords = nullptr;  // Never null in a pipeline.
  /// Where a stage that defers is to leave its weight gradients; null where the backward is whole.
  const WeightGradients* deferred = nullptr;
};

/// From this microbatch's inputs to its outputs. What crosses to the next stage is a list of
/// tensors, the same number with the same dtypes for every microbatch.
using StageForward = std::function<Tensors(const Tensors& inputs, const StagePass& pass)>;

/// What strategies of data parallelism do to a stage, at the actions of these names. They are
/// called even where the step has already failed on this rank: they are collective.
struct StageHooks {
  std::function<void()> unshard = {};
  std::function<void()> reshard = {};
  std::function<void()> reduce_grad = {};
  /// Right before the last B or W of the stage in a step: gradients become final from here on.
  std::function<void()> last_backward = {};
};

/// A part of a model that one rank runs, of which it may have several.
///
///   Stage stage{.index = 1, .forward = [&](const Tensors& inputs, const StagePass& pass) {
///     return Tensors{part.forward(inputs[0], {.deferred = pass.deferred})};
///   }, .defers = true};
struct Stage {
  int64_t index = 0;
  StageForward forward = {};
  /// Whether `forward` leaves the costly weight gradients in StagePass::deferred, where it is given
  /// one. Otherwise a table with I and W walks the stage's graph twice.
  bool defers = false;
  StageHooks hooks = {};
};

}  // namespace tessera

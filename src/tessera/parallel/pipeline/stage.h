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

/// The tensors that a stage gets or returns.
using Tensors = std::vector<at::Tensor>;

/// Keyword arguments of a stage. Tensors are split into microbatches like the inputs; other values
/// are the same for all microbatches.
using Keyword = std::variant<at::Tensor, bool, int64_t, double, std::string>;
/// Arguments of a stage by name.
using Keywords = std::map<std::string, Keyword>;

/// Arguments of one forward pass of a stage, in addition to its inputs.
struct StagePass {
  int64_t stage = 0;                   // In the whole pipeline, from 0.
  int64_t microbatch = 0;              // In the batch, from 0.
  const Keywords* keywords = nullptr;  // Never null in a pipeline.
  /// Where a stage that defers puts its weight gradients; null if the backward is not split.
  const WeightGradients* deferred = nullptr;
  /// On the last stage: the target of the loss, unless the caller wants the outputs. A stage may
  /// compute the loss itself, as its only output, which PipelineOptions::loss then gets.
  at::Tensor target = {};
};

/// Computes the outputs of one microbatch. They are sent to the next stage; their number and dtypes
/// must be the same for every microbatch.
using StageForward = std::function<Tensors(const Tensors& inputs, const StagePass& pass)>;

/// Hooks for data-parallel strategies; an empty one is not called. They are called even if the step
/// has already failed on this rank, because they may be **collective**.
struct StageHooks {
  std::function<void()> unshard = {};      // At UNSHARD, to gather the parameters.
  std::function<void()> reshard = {};      // At RESHARD, to free the gathered parameters.
  std::function<void()> reduce_grad = {};  // At REDUCE_GRAD, once per step, after the last B or W.
  /// Called right before the stage's last B or W of a step: from here on gradients become final.
  std::function<void()> last_backward = {};
};

/// A part of a model that one rank runs. A rank may have several.
///
///   Stage stage{.index = 1, .forward = [&](const Tensors& inputs, const StagePass& pass) {
///     return Tensors{part.forward(inputs[0], {.deferred = pass.deferred})};
///   }, .defers = true};
struct Stage {
  int64_t index = 0;          // In the whole pipeline, from 0.
  StageForward forward = {};  // Called once per microbatch.
  /// Whether `forward` puts the expensive weight gradients into StagePass::deferred if that is not
  /// null. Otherwise a schedule with I and W runs two backward passes over the stage's graph.
  bool defers = false;
  StageHooks hooks = {};  // Of the data-parallel strategy, if there is one.
};

}  // namespace tessera

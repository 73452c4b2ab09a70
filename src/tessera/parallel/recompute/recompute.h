#pragma once

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"

namespace tessera TSR_API {

/// Activation checkpointing: which activations of a unit the forward pass does not keep, so that
/// the backward pass computes them again.
enum class Recompute {
  kNone,       // Keeps all.
  kSelective,  // Keeps the results of linear layers and of attention (Pass::kept).
  kFull,       // Keeps the unit's input alone.
};

/// The unit with activation checkpointing: its backward pass first runs the forward pass again.
/// Gradients have the same bits as without it: the second run sees the random state of the first.
///
/// A unit that ignores Pass::kept, e.g. a torch::nn module, keeps its input alone with either.
Unit recompute(Unit unit, Recompute what);

}  // namespace tessera

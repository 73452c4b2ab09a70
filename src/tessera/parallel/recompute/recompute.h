#pragma once

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"

namespace tessera TSR_API {

/// The unit with activation checkpointing: its forward pass keeps its input alone, and its backward
/// pass first runs the forward pass again. Gradients have the same bits as without it: the second
/// run sees the random state of the first.
///
/// It computes the forward pass twice and holds the activations of one unit at a time.
Unit recompute(Unit unit);

}  // namespace tessera

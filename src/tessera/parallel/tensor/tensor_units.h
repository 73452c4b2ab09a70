#pragma once

#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"

namespace tessera TSR_API {

/// Tensor parallelism of placed units: each parameter becomes this rank's part of it
/// (Parameter::place) while its tensor stays the same object. Values are kept, if there are any.
/// The units' layers must be made for it: column_linear, row_linear, vocabulary_embed.
void cut_tensors(std::vector<Unit>& units);

}  // namespace tessera

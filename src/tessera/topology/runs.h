#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// Calls `visit` with each run of neighbours that a shard consists of, as places in the row-major
/// order of the whole tensor, in the order of the shard's own elements.
///
/// `pieces` are a shard's boxes as local_boxes gives them: a grid, the last dimension fastest. Rows
/// that follow one another in the whole are one run.
void for_each_run(std::span<const int64_t> global_shape, std::span<const Box> pieces,
                  const std::function<void(Span)>& visit);

}  // namespace tessera

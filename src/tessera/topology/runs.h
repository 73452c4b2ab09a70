#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// Calls `visit` with each run of consecutive elements of a shard, as indices in the row-major
/// order of the whole tensor, in the order of the shard's elements.
///
/// `pieces` are a shard's boxes as local_boxes returns them: a grid, the last dimension fastest.
/// Consecutive rows of the whole tensor form one run.
void for_each_run(std::span<const int64_t> global_shape, std::span<const Box> pieces,
                  const std::function<void(Span)>& visit);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <functional>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// Calls `copy` for each run of elements of `shared` that is contiguous in both boxes, whose
/// elements are row-major: the index of its first element in `from` and in `to`, and its length.
/// `shared` must lie in both.
void for_each_shared_run(const Box& from, const Box& to, const Box& shared,
                         const std::function<void(int64_t from, int64_t to, int64_t size)>& copy);

}  // namespace tessera

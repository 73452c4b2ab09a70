#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/dtype.h"

namespace tessera::cli {

/// The values of elements as doubles, appended to `out`; false for dtypes that have no numbers
/// here.
bool append_values(DType dtype, std::span<const std::byte> bytes, std::vector<double>& out);

/// Calls `use` with boxes that make up a tensor, each of a few megabytes at most unless one row is
/// larger.
void for_each_block(const CheckpointTensor& tensor, const std::function<void(const Box&)>& use);

}  // namespace tessera::cli

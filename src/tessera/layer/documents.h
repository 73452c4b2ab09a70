#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/context_layout.h"

namespace tessera TSR_API {

/// Rows of a batch into which several documents are packed: the lengths of the documents of each
/// row. Attention never crosses the end of a document, and positions start anew after it.
using PackedRows = std::vector<DocumentLengths>;

/// From the number of each token's document, [rows, positions] of int64. A document ends where the
/// number changes. ConfigError for a tensor of another form.
PackedRows packed_rows(const at::Tensor& numbers);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/data/batches.h"

namespace tessera TSR_API {

/// The number of each token's document, row-major [rows, seq], from 0 in each row. A document ends
/// with the token `end`.
std::vector<int64_t> document_numbers(const BatchRows& rows, int64_t end);

/// Replaces the target of the last token of each document, the first token of the next one, by
/// `ignored`.
void ignore_document_ends(BatchRows& rows, int64_t end, int64_t ignored);

}  // namespace tessera

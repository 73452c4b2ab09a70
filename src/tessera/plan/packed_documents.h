#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/plan/context_layout.h"

namespace tessera TSR_API {

/// A position that holds no token.
inline constexpr int64_t kPadding = -1;

/// Packed documents, each padded at its end to a multiple of some number. ContextLayout speaks of
/// positions in the padded sequence.
struct PaddedDocuments {
  DocumentLengths lengths;  // Without padding.
  DocumentLengths padded;   // Including padding.

  /// The same positions without padding in the sequence; kPadding for padding.
  std::vector<int64_t> unpadded(const std::vector<int64_t>& positions) const;
};
/// The documents, each padded to a multiple of this length.
PaddedDocuments pad_documents(const DocumentLengths& documents, int64_t multiple);

/// {0, l0, l0 + l1, …}, as kernels of packed attention expect ("cu_seqlens").
std::vector<int64_t> cumulative_lengths(const DocumentLengths& documents);
/// The lengths again. ConfigError unless the list starts with 0 and increases.
DocumentLengths lengths_of(const std::vector<int64_t>& cumulative);

/// Positions counted from the start of their document: the positions of rotary embeddings.
std::vector<int64_t> positions_in_documents(const std::vector<int64_t>& positions,
                                            const DocumentLengths& documents);

/// The tokens of each document, padding not counted, in both chunks of a rank.
struct ValidLengths {
  std::vector<int64_t> head;  // In chunk `rank`, one entry per document.
  std::vector<int64_t> tail;  // In chunk 2·ranks-1-rank, one entry per document.
};
/// For documents padded to a multiple of 2·ranks and ContextLayout::per_document().
ValidLengths valid_lengths(const PaddedDocuments& documents, int64_t ranks, int64_t rank);

}  // namespace tessera

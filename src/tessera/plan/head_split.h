#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// The attention heads of one tensor-parallel rank.
struct HeadSplit {
  Span query_heads;  // Numbered from 0 over the whole model.
  Span kv_heads;     // The key-value heads that these query heads attend with.
  /// The tensor-parallel ranks with the same key-value heads, this one included.
  Span kv_ranks;

  /// Whether other ranks compute the same key-value heads, so that gradients of their weights must
  /// be summed over kv_ranks.
  bool replicates_kv() const { return kv_ranks.size() > 1; }
  friend bool operator==(const HeadSplit&, const HeadSplit&) = default;
};

/// The heads of rank `rank` of `tp`: an equal share of the query heads, and of the key-value heads.
/// With fewer key-value heads than ranks, tp / kv_heads consecutive ranks share each one.
///
///   split_heads(32, 8, 16, 3)  // Query heads 6 and 7, key-value head 1, which rank 2 has as well.
///
/// ConfigError with the nearest legal degrees unless tp divides `heads`, and tp divides `kv_heads`
/// or the reverse.
HeadSplit split_heads(int64_t heads, int64_t kv_heads, int64_t tp, int64_t rank);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How the ranks of a context-parallel group compute attention over one sequence.
struct ContextParallelOptions {
  /// See context_parallel_types():
  ///   ring          keys and values pass from rank to rank, overlapped with compute
  ///   all-gather    each rank gathers the keys and values, `head_stride` heads at a time
  ///   ulysses       an all-to-all gives each rank all positions of some heads
  ///   hierarchical  ulysses within sizes[0] consecutive ranks, a ring over sizes[1] of these
  std::string type = "ring";
  std::string layout = "head-tail";  // See context_layouts().
  std::vector<int64_t> sizes = {};   // Of hierarchical: inner to outer; their product is cp.
  int64_t head_stride = 1;           // Of all-gather: key-value heads per gather.

  friend bool operator==(const ContextParallelOptions&, const ContextParallelOptions&) = default;
};

/// The names that --cp-type accepts.
std::vector<std::string> context_parallel_types();

/// What the options must fit.
struct ContextParallelShape {
  int64_t cp = 1;        // Ranks that split a sequence.
  int64_t sequence = 1;  // Tokens per row.
  int64_t heads = 1;     // Of the whole model.
  int64_t kv_heads = 1;  // Of the whole model; must divide `heads`.
  int64_t tp = 1;        // Ranks that share the heads.
};

/// ConfigError with legal values for an unknown type or layout, a sequence that the layout does not
/// divide, heads that Ulysses does not divide, a head stride that does not divide the key-value
/// heads, and sizes whose product is not cp.
void check_context_parallel(const ContextParallelOptions& options,
                            const ContextParallelShape& shape);

}  // namespace tessera

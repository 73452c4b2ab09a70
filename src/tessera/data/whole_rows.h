#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/data/batches.h"

namespace tessera TSR_API {

/// All tokens of the data, each once as a target, except the first of each source: rows of `seq`
/// tokens without overlap, one source after the other. The last row of a source and the last batch
/// are padded: the targets there are `ignored`.
///
///   const WholeRows rows(data, {.batch = 8, .seq = 256, .ignored = -100});
///   for (int64_t i = 0; i < rows.batches(); ++i) … rows.rows(i, 0, 8) …
class WholeRows {
 public:
  /// The size of a batch, and the target of padding.
  struct Options {
    int64_t batch = 8;       // Rows per batch.
    int64_t seq = 128;       // Tokens per row.
    int64_t ignored = -100;  // Target of padding.
  };
  /// ConfigError if no source has two tokens.
  WholeRows(const TokenData& data, const Options& options);

  /// As given to the constructor.
  const Options& options() const { return options_; }
  /// Batches of all rows.
  int64_t batches() const;
  /// Targets that are not ignored.
  int64_t targets() const;
  /// Rows lo … hi-1 of a batch.
  BatchRows rows(int64_t batch, int64_t lo, int64_t hi) const;

 private:
  void append(int64_t row, BatchRows& to) const;

  Options options_;
  std::vector<TokenRun> sources_;
  std::vector<int64_t> first_rows_;  // Of each source, and the number of all rows.
};

}  // namespace tessera

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/data/mixture.h"
#include "tessera/data/token_data.h"

namespace tessera TSR_API {

/// Size and order of the batches.
struct BatchOptions {
  int64_t batch = 8;    // Rows per step, over all ranks.
  int64_t seq = 128;    // Tokens per row.
  bool shuffle = true;  // Otherwise samples are in file order.
  uint64_t seed = 0;    // Of the order of samples, and of the mixture of sources.
};

/// Consecutive rows of a batch.
struct BatchRows {
  int64_t rows = 0;                // Those here, not of the whole batch.
  int64_t seq = 0;                 // Tokens per row.
  std::vector<int64_t> inputs{};   // Token ids, row-major [rows, seq].
  std::vector<int64_t> targets{};  // The token after each input, row-major [rows, seq].

  friend bool operator==(const BatchRows&, const BatchRows&) = default;
};

/// The training data of each step, a function of only the options and the step. There is no state
/// to save, and however the ranks divide a batch, they read the same rows as one process would.
///
///   const Batches batches(data, {.batch = 32, .seq = 256});
///   const BatchRows mine = batches.rows(step, 8, 16);  // Rows 8 … 15 of 32.
class Batches {
 public:
  /// ConfigError if a source is shorter than a sample, or all sources together have less than a
  /// batch. Messages call the data `name`.
  Batches(const TokenData& data, const BatchOptions& options, std::string_view name = "data");

  /// As given to the constructor.
  const BatchOptions& options() const { return options_; }
  /// Samples per epoch over all sources: seq tokens each, without overlap.
  int64_t samples() const;
  /// Full batches per epoch.
  int64_t batches_per_epoch() const { return samples() / options_.batch; }

  /// Rows lo … hi-1 of the batch of a step; steps count from 0.
  BatchRows rows(int64_t step, int64_t lo, int64_t hi) const;
  BatchRows rows(int64_t step) const { return rows(step, 0, options_.batch); }

 private:
  int64_t samples_of(const TokenRun& source) const;
  int64_t begin_of(const Mixture::Pick& pick) const;

  std::vector<TokenRun> sources_;
  BatchOptions options_;
  Mixture mixture_;
};

}  // namespace tessera

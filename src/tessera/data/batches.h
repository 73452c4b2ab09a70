#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/data/mixture.h"
#include "tessera/data/token_data.h"

namespace tessera TSR_API {

struct BatchOptions {
  int64_t batch = 8;    // Rows of a step, over all ranks.
  int64_t seq = 128;    // Tokens of a row.
  bool shuffle = true;  // Otherwise samples come in the order of the files.
  uint64_t seed = 0;
};

/// Some rows of a batch. Both are [rows, seq], row by row; targets are one token later.
struct BatchRows {
  int64_t rows = 0;
  int64_t seq = 0;
  std::vector<int64_t> inputs{};
  std::vector<int64_t> targets{};

  friend bool operator==(const BatchRows&, const BatchRows&) = default;
};

/// What each step trains on: a function of the options and the step's number alone. There is no
/// state to save, and however ranks divide a batch they read the rows that one process would.
///
///   const Batches batches(data, {.batch = 32, .seq = 256});
///   const BatchRows mine = batches.rows(step, 8, 16);  // Rows 8 … 15 of 32.
class Batches {
 public:
  /// ConfigError where a source is shorter than a sample, or all of them than a batch; it calls the
  /// data by the name given here.
  Batches(const TokenData& data, const BatchOptions& options, std::string_view name = "data");

  const BatchOptions& options() const { return options_; }
  /// The samples of one epoch of every source: seq tokens each, none twice.
  int64_t samples() const;
  /// The batches that one epoch fills.
  int64_t batches_per_epoch() const { return samples() / options_.batch; }

  /// Rows lo … hi-1 of the batch of a step, from 0.
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

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How the next token is chosen. Applied in the order of the members, as in Hugging Face's
/// `generate`.
struct SamplingOptions {
  double temperature = 1;  // Divides the logits; 0: always the most likely token.
  int64_t top_k = 0;       // Only the `top_k` most likely tokens; 0: all.
  double top_p = 1;        // Only the most likely tokens whose probabilities add up to this.
  uint64_t seed = 0;       // Of the draws; unused if the temperature is 0.
};

/// ConfigError for values that no distribution has.
void check(const SamplingOptions& options);

/// The logits that sampling draws from: tempered, and −∞ for tokens that are left out. In float32,
/// or in float64 if they are.
at::Tensor sampled_logits(const at::Tensor& logits, const SamplingOptions& options);

/// The next token of each row, [rows] of int64, from logits [rows, vocabulary]. The same on every
/// rank that has the same logits. The values drawn only depend on seed, row and step. Of equal
/// logits the first one counts as the most likely.
at::Tensor next_tokens(const at::Tensor& logits, const SamplingOptions& options, int64_t step);

}  // namespace tessera

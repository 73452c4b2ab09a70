#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The pairs of tokens and experts, sorted by expert, then by token. Each pair is a row.
struct TokenOrder {
  std::vector<int64_t> counts = {};  // Rows per expert.
  at::Tensor tokens = {};            // The token of each row.
  at::Tensor rows = {};              // The row of each pair, [tokens, top_k].
  at::Tensor kept = {};  // Whether a pair has a row, [tokens, top_k]; undefined: all have.
  /// In the backward pass, gradients of rows are those of tokens times this.
  double row_scale = 1;
};

/// Of experts [tokens, top_k] of a Routing. Waits for the device. Pairs with an expert outside of 0
/// to num_experts - 1, e.g. one of another rank, have no row.
TokenOrder order_by_expert(const at::Tensor& experts, int64_t num_experts);

/// The rows of x [tokens, width]: one per pair.
at::Tensor expert_rows(const at::Tensor& x, const TokenOrder& order);

/// The sum of each token's rows, times their weights [tokens, top_k].
at::Tensor combine_rows(const at::Tensor& rows, const at::Tensor& weights, const TokenOrder& order);

}  // namespace tessera

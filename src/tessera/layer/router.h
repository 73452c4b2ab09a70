#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How logits become scores.
enum class RouterScore { kSoftmax, kSigmoid };

/// How a router chooses experts and weighs their results.
struct RouterOptions {
  int64_t top_k = 2;  // Experts per token.
  /// For the weights and Routing::probabilities; with score_first also for the choice of experts.
  RouterScore score = RouterScore::kSoftmax;
  /// Scores of all experts, then the best; otherwise the best logits, then the scores of those.
  bool score_first = true;
  bool normalize = true;   // Whether the weights of a token's experts add up to `scale`.
  double scale = 1;        // Factor of all weights.
  int64_t num_groups = 1;  // Of neighbouring experts, equally many in each; 1: no groups.
  /// A token only visits experts of this many groups: the best by the sum of the top_k / top_groups
  /// best scores of each.
  int64_t top_groups = 1;
};

/// ConfigError if the options do not fit together, or not to this number of experts.
void check(const RouterOptions& options, int64_t num_experts);

/// The experts of each token, best first, and the weights of their results: [tokens, top_k].
struct Routing {
  at::Tensor experts = {};  // int64
  at::Tensor weights = {};  // At least float32.
  at::Tensor probabilities =
      {};  // Of all experts, [tokens, experts], without gradients: for balancing.
};

/// Routes tokens by their logits [tokens, experts]. Equal scores go to the lowest index, so that
/// all layouts agree. `bias` [experts] is added to the scores to choose experts, but not to weigh
/// them.
Routing route(const at::Tensor& logits, const RouterOptions& options, const at::Tensor& bias = {});

/// Balancing without a loss: raises the bias of experts with fewer tokens than the mean by `rate`,
/// and lowers that of the others. `counts` are the tokens per expert of the whole batch.
void update_bias_(const at::Tensor& bias, const at::Tensor& counts, double rate);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The target of a position that has no loss, e.g. the last token of a document.
constexpr int64_t kIgnoredTarget = -100;

/// ConfigError unless `tokens` is [batch, positions] of int64 with ids in the vocabulary; it names
/// the position. Ids on a GPU are not checked, to avoid a synchronization: check them before the
/// copy.
void check_tokens(const at::Tensor& tokens, int64_t vocab_size);

/// The rows of `weight` [vocabulary, size] for the tokens, which are checked.
at::Tensor embed(const at::Tensor& tokens, const at::Tensor& weight);

/// The mean cross-entropy of logits [batch, positions, vocabulary], at least in float32. Targets
/// are checked like tokens.
at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets);

/// The sum of the losses over all positions but those with the target `ignored`.
at::Tensor token_loss_sum(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored);

}  // namespace tessera

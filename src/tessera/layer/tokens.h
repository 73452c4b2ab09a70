#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Refuses what is no [batch, positions] of int64, and ids outside the vocabulary, by a ConfigError
/// with the place. Ids on a GPU are not looked at, which would stop it: check them before they go
/// there.
void check_tokens(const at::Tensor& tokens, int64_t vocab_size);

/// The rows of `weight` [vocabulary, size] that the checked tokens name.
at::Tensor embed(const at::Tensor& tokens, const at::Tensor& weight);

/// The mean cross-entropy of [batch, positions, vocabulary] logits, in float32 at least. Targets
/// are checked as tokens are.
at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace tessera

#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"

namespace tessera TSR_API {

/// The elements of all parameters of a Llama; a tied head is counted once.
int64_t parameter_count(const LlamaConfig& config);

/// Floating-point operations of a training step for each token of texts of `positions` tokens: two
/// for each multiplication in the matrix products of the forward pass, and twice as many again for
/// the backward pass. Attention counts as the full square of positions, although a causal one needs
/// half of it, as is usual; norms, activations and the look-up of embeddings do not count.
int64_t flops_per_token(const LlamaConfig& config, int64_t positions);

}  // namespace tessera

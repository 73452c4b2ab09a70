#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"

namespace tessera TSR_API {

/// The elements of all parameters of a Llama; a tied head is counted once.
int64_t parameter_count(const LlamaConfig& config);

/// Those of the experts among them, without the routers.
int64_t expert_parameter_count(const LlamaConfig& config);

/// Floating-point operations per token of a training step, for sequences of `positions` tokens: two
/// per multiplication in the matrix products of the forward, and twice as many for the backward. By
/// convention, attention counts as the full square of positions, although causal attention needs
/// half. Norms, activations and embedding look-ups do not count. Of the experts, those that a token
/// visits count.
int64_t flops_per_token(const LlamaConfig& config, int64_t positions);

}  // namespace tessera

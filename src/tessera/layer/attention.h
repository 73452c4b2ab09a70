#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Attention in which no position sees later ones, over heads [batch, positions, heads, head size].
/// There may be fewer heads of keys and values than of queries: each serves as many neighbours.
at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values);

}  // namespace tessera

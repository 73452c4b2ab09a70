#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// Causal attention over [batch, positions, heads, head size]. With fewer key-value heads than
/// query heads, neighbouring query heads share one (grouped-query attention). Pass::kept keeps the
/// result if LibTorch has a fused kernel for these tensors.
///
/// With Pass::documents, a query only attends to keys of its document. With Pass::context, the
/// tensors hold this rank's tokens of longer sequences, and the call is **collective**.
at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const Pass& pass = {});

}  // namespace tessera

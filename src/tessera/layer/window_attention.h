#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// causal_attention() in which each token only attends to the last `window` positions, itself among
/// them; 0: all of them. It computes nothing outside the window.
at::Tensor window_attention(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, int64_t window, const Pass& pass = {});

}  // namespace tessera

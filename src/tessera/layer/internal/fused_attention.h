#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/layer/custom_attention.h"

/// LibTorch's fused kernels of causal attention with their backward, for results that are kept.
namespace tessera::layer::detail {

/// A kernel and what its backward needs.
struct FusedAttention {
  std::vector<at::Tensor> (*forward)(const AttentionInputs& inputs);  // First the output.
  AttentionInputs (*backward)(const at::Tensor& gradient, const AttentionInputs& inputs,
                              const std::vector<at::Tensor>& results);
};

/// The kernel that scaled_dot_product_attention() uses in training; null if it is the unfused one.
const FusedAttention* fused_attention_for(const AttentionInputs& inputs);

}  // namespace tessera::layer::detail

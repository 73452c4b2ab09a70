#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/layer/custom_attention.h"

/// Attention of one block with its log-sum-exp, and the gradients of a sum of blocks.
namespace tessera::layer::detail {

struct BlockResults {
  at::Tensor output;       // [batch, heads, queries, head size]
  at::Tensor log_sum_exp;  // [batch, heads, queries]
};

/// A kernel for blocks. A causal block is square.
struct BlockKernel {
  BlockResults (*forward)(const AttentionInputs& inputs, bool causal);
  /// `results` are those of all blocks together.
  AttentionInputs (*backward)(const at::Tensor& gradient, const AttentionInputs& inputs,
                              const BlockResults& results, bool causal);
};

/// The tensor as kernels need it. On a CPU they compute bfloat16 and float16 in float32: the output
/// of a block is not rounded before it is added, and the backward is faster without instructions
/// for these dtypes.
at::Tensor for_blocks(const at::Tensor& tensor);

/// LibTorch's flash attention if it takes these queries, otherwise products of whole matrices.
const BlockKernel& block_kernel_for(const at::Tensor& queries);
/// The latter.
const BlockKernel& plain_block_kernel();

}  // namespace tessera::layer::detail

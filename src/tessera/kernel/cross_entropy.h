#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The losses, and what the backward pass needs of the forward pass.
struct GpuCrossEntropy {
  at::Tensor losses;    // Per row, 0 for ignored targets.
  at::Tensor log_sums;  // Of the exponentials of a row.
};

/// The cross-entropy of each row of contiguous logits [rows, vocabulary], in float32. Needs
/// has_kernels().
GpuCrossEntropy cross_entropy_on_gpu(const at::Tensor& logits, const at::Tensor& targets,
                                     int64_t ignored);

/// Writes the gradient of the logits into `out`, which may be the logits themselves; `gradients`
/// are those of the losses, in float32.
void cross_entropy_backward_on_gpu(const at::Tensor& gradients, const at::Tensor& logits,
                                   const at::Tensor& targets, const at::Tensor& log_sums,
                                   int64_t ignored, const at::Tensor& out);

}  // namespace tessera

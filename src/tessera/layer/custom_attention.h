#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "tessera/base/export.h"
#include "tessera/layer/kept_results.h"

namespace tessera TSR_API {

/// The inputs of attention, or their gradients, of shape [batch, heads, positions, head size].
struct AttentionInputs {
  at::Tensor q;  // Queries; they may have more heads than the others.
  at::Tensor k;  // Keys.
  at::Tensor v;  // Values.
};

/// A way to compute attention and its gradients.
struct AttentionKernel {
  using Results = KeptResults::Results;  // First the output.
  /// Called without autograd, and not at all if the results were kept.
  std::function<Results(const AttentionInputs& inputs)> forward = {};
  /// The gradients of the inputs, from that of the output and the results of `forward`.
  std::function<AttentionInputs(const at::Tensor& gradient, const AttentionInputs& inputs,
                                const Results& results)>
      backward = {};
};

/// The kernel's output as a differentiable function of the inputs. `kept` keeps the results, unless
/// it is null.
at::Tensor custom_attention(const AttentionInputs& inputs, const AttentionKernel& kernel,
                            KeptResults* kept);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "tessera/base/export.h"
#include "tessera/layer/kept_results.h"

namespace tessera TSR_API {

/// Of shape [batch, heads, positions, head size]. Queries may have more heads than the others.
struct AttentionInputs {
  at::Tensor q, k, v;
};

/// A way to compute attention and its gradients.
struct AttentionKernel {
  using Results = KeptResults::Results;  // First the output.
  std::function<Results(const AttentionInputs& inputs)> forward = {};
  std::function<AttentionInputs(const at::Tensor& gradient, const AttentionInputs& inputs,
                                const Results& results)>
      backward = {};
};

/// The kernel's output as a differentiable function of the inputs. `kept` keeps the results, unless
/// it is null.
at::Tensor custom_attention(const AttentionInputs& inputs, const AttentionKernel& kernel,
                            KeptResults* kept);

}  // namespace tessera

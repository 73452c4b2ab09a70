#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

/// Tensor parallelism without sequence parallelism has all tokens on all ranks. Experts compute
/// each token once: every rank takes a share of them, which may be empty. Otherwise both do
/// nothing.
namespace tessera TSR_API {

/// This rank's tokens of x [tokens, …]. The backward pass gathers the gradients: **collective**.
at::Tensor own_tokens(const at::Tensor& x, const Pass& pass);

/// **Collective.** The tokens of all ranks; the backward pass takes this rank's gradients.
at::Tensor all_tokens(const at::Tensor& own, const Pass& pass);

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

namespace torch::autograd {
struct AutogradContext;
}

/// For functions whose gradient may take the place of their input, which saves its memory.
namespace tessera TSR_API {

/// In the forward pass: the vectors of x as the rows of a contiguous matrix, which it keeps for the
/// backward pass. Autograd does not know of it, since saved variables and views would count as
/// readers of x.
at::Tensor keep_rows(torch::autograd::AutogradContext& context, const at::Tensor& x);

/// What keep_rows() kept.
struct KeptRows {
  at::Tensor rows;  // As keep_rows() has returned them.
  /// For their gradient: the rows themselves if nothing else can read them any more, otherwise
  /// memory of its own.
  at::Tensor gradient;
};
/// In the backward pass. Lets go of the rows, unless the graph is kept for another pass. StateError
/// if x has changed since, or if they are gone.
KeptRows take_rows(torch::autograd::AutogradContext& context);

}  // namespace tessera

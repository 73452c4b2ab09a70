#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"
#include "tessera/tensor/parameter.h"

/// The 2-norm of all gradients as one vector. Parameters without gradient count as zeros.
namespace tessera TSR_API {

/// Its square, a float64 scalar on the gradients' device: ranks that hold different parameters add
/// theirs up before they take the root.
at::Tensor grad_square_sum(const Parameters& parameters);

/// The norm itself, which may be infinite or no number.
double grad_norm(const Parameters& parameters);

/// Scales the gradients so that their norm, which is known, is at most `max_norm`. NumericError
/// with the parameters whose gradients are not finite where the norm is not.
void clip_grads_(const Parameters& parameters, double norm, double max_norm);

/// Both: the norm before the gradients were scaled.
double clip_grad_norm_(const Parameters& parameters, double max_norm);

}  // namespace tessera

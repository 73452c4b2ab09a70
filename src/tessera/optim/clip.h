#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/tensor/parameter.h"

/// The 2-norm of all gradients as one vector. Parameters without gradient count as zeros.
namespace tessera TSR_API {

/// The square of the norm, a float64 scalar on the gradients' device. Ranks that hold different
/// parameters must sum it before taking the root.
at::Tensor grad_square_sum(const Parameters& parameters);

/// The norm, which may be non-finite.
double grad_norm(const Parameters& parameters);

/// **Collective.** The norm if the ranks of a group hold different parts of the parameters; the
/// same on all of them. Of equal parts, one counts (Parameter::place).
double grad_norm(const Parameters& parameters, const Group& holders);
/// The same as a float64 scalar, for which the host does not wait. All ranks name the same kind of
/// device.
at::Tensor grad_norm_on(at::Device device, const Parameters& parameters, const Group& holders);

/// The first parameters whose gradients are non-finite, in quotes; "" if none is.
std::string non_finite_gradients(const Parameters& parameters);

/// The factor that scales gradients of this norm to a norm of at most `max_norm`.
double clip_factor(double norm, double max_norm);
/// The same of a norm on any device, with the same bits.
at::Tensor clip_factor(const at::Tensor& norm, double max_norm);

/// Scales the gradients, whose norm is `norm`, to a norm of at most `max_norm`. If `norm` is
/// non-finite: NumericError with the parameters whose gradients are.
void clip_grads_(const Parameters& parameters, double norm, double max_norm);

/// Does both; returns the norm before scaling.
double clip_grad_norm_(const Parameters& parameters, double max_norm);
/// The same for parameters that the ranks of `holders` hold together.
double clip_grad_norm_(const Parameters& parameters, double max_norm, const Group& holders);

}  // namespace tessera

#include "tessera/optim/master_weights.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "tessera/base/check.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/optim/optimizer.h"
#include "tessera/tensor/unallocated.h"

namespace tessera {
namespace {

bool is_short(at::ScalarType dtype) {
  return dtype == at::kBFloat16 || dtype == at::kHalf;
}

void check_parameter(const Parameter& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  const at::ScalarType dtype = tensor.scalar_type();
  TSR_CHECK(dtype == at::kFloat || dtype == at::kDouble || is_short(dtype), "parameter '",
            parameter.name, "' has dtype ", dtype,
            "; optimizers support Double, Float, BFloat16 and Half");
  TSR_CHECK(tensor.is_contiguous(), "parameter '", parameter.name,
            "' is not contiguous; make it contiguous before building the optimizer");
  if (!is_unallocated(tensor)) return;
  throw StateError(concat("parameter '", parameter.name,
                          "' has no values yet; load or initialize it before building the "
                          "optimizer"));
}

// A duplicate tensor would be updated twice per step; a duplicate name would be ambiguous.
void check_distinct(const Parameters& parameters) {
  std::map<std::string, const at::Tensor*, std::less<>> names;
  std::map<const void*, std::string> tensors;
  for (const Parameter& parameter : parameters) {
    TSR_CHECK(names.emplace(parameter.name, &parameter.tensor).second,
              "two parameters are called '", parameter.name, "'; names must be unique");
    const auto [known, is_new] =
        tensors.emplace(parameter.tensor.unsafeGetTensorImpl(), parameter.name);
    TSR_CHECK(is_new, "parameters '", known->second, "' and '", parameter.name,
              "' are one tensor; list it once");
  }
}

// The fused kernels need lists of one dtype and device.
void check_alike(const Parameters& parameters, const std::vector<at::Tensor>& weights) {
  for (size_t i = 1; i < weights.size(); ++i) {
    const bool alike =
        weights[i].dtype() == weights[0].dtype() && weights[i].device() == weights[0].device();
    TSR_CHECK(alike, "'", parameters[0].name, "' is updated in ", weights[0].scalar_type(), " on ",
              weights[0].device(), ", '", parameters[i].name, "' in ", weights[i].scalar_type(),
              " on ", weights[i].device(), "; use one optimizer per dtype and device");
  }
}

// Converts and multiplies in one pass. A factor with a dimension takes part in type promotion, so
// the product is computed in `dtype`.
at::Tensor converted(const at::Tensor& gradient, at::ScalarType dtype, double factor) {
  if (factor == 1) return gradient.to(dtype);
  return at::mul(gradient, at::full({1}, factor, gradient.options().dtype(dtype)))
      .view(gradient.sizes());
}

}  // namespace

MasterWeights::MasterWeights(const Parameters& parameters) {
  std::ranges::copy_if(parameters, std::back_inserter(parameters_),
                       [](const Parameter& p) { return p.tensor.requires_grad(); });
  TSR_CHECK(!parameters_.empty(), "none of ", parameters.size(),
            " parameters requires a gradient; there is nothing to optimize");
  check_distinct(parameters_);
  for (const Parameter& parameter : parameters_) {
    check_parameter(parameter);
    const at::Tensor& tensor = parameter.tensor;
    // Keep the parameter itself, because its memory may be replaced.
    weights_.push_back(is_short(tensor.scalar_type()) ? tensor.detach().to(at::kFloat) : tensor);
  }
  check_alike(parameters_, weights_);
}

std::vector<at::Tensor> MasterWeights::Pending::of(const std::vector<at::Tensor>& all) const {
  std::vector<at::Tensor> chosen;
  chosen.reserve(indices.size());
  for (const size_t index : indices) chosen.push_back(all[index]);
  return chosen;
}

MasterWeights::Pending MasterWeights::pending(double gradient_factor) const {
  Pending pending;
  if (!std::isfinite(gradient_factor)) return pending;
  std::vector<at::Tensor> scaled_in_place;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].tensor.grad();
    if (!gradient.defined()) continue;
    pending.indices.push_back(i);
    pending.weights.push_back(weights_[i]);
    const bool converts = gradient.scalar_type() != weights_[i].scalar_type();
    if (!converts) scaled_in_place.push_back(gradient);
    pending.gradients.push_back(
        converts ? converted(gradient, weights_[i].scalar_type(), gradient_factor) : gradient);
  }
  if (gradient_factor != 1 && !scaled_in_place.empty()) {
    at::_foreach_mul_(scaled_in_place, gradient_factor);
  }
  for (at::Tensor& gradient : pending.gradients) gradient = gradient.contiguous();
  return pending;
}

std::vector<MasterWeights::ForKernel> MasterWeights::for_kernel() const {
  std::vector<ForKernel> all;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const bool fits = has_kernels(parameter) && parameter.is_contiguous() &&
                      gradient.layout() == at::kStrided && is_alike(gradient, parameter) &&
                      (all.empty() || is_alike(parameter, all[0].parameter));
    if (!fits) return {};
    all.push_back({i, parameter, gradient.contiguous(), weights_[i]});
  }
  return all;
}

at::Tensor MasterWeights::on_device(const at::Tensor& gradient_factor) const {
  if (gradient_factor.device() == weights_[0].device()) return gradient_factor.to(at::kFloat);
  return at::full({}, gradient_factor.item<double>(), weights_[0].options().dtype(at::kFloat));
}

void MasterWeights::publish(const std::vector<ForKernel>& changed) {
  for (const ForKernel& one : changed) one.parameter.unsafeGetTensorImpl()->bump_version();
}

void MasterWeights::publish(const Pending& changed) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> copies;
  for (const size_t index : changed.indices) {
    // The fused kernels do not, so that a backward pass that needs the old values would not notice.
    parameters_[index].tensor.unsafeGetTensorImpl()->bump_version();
    if (!is_copy(index)) continue;
    parameters.push_back(parameters_[index].tensor);
    copies.push_back(weights_[index]);
  }
  if (!copies.empty()) at::_foreach_copy_(parameters, copies);
}

void MasterWeights::zero_grad() const {
  for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

void MasterWeights::append_state(size_t index, std::vector<OptimizerState>& to) const {
  if (is_copy(index)) to.push_back({name(index), "master", weights_[index]});
}

bool MasterWeights::is_copy(size_t index) const {
  return !weights_[index].is_same(parameters_[index].tensor);
}

}  // namespace tessera

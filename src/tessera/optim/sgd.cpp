#include "tessera/optim/sgd.h"

#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "tessera/base/check.h"
#include "tessera/kernel/sgd.h"
#include "tessera/optim/learning_rate.h"

namespace tessera {
namespace {

SgdOptions checked(const SgdOptions& options) {
  TSR_CHECK(options.momentum >= 0, "momentum must be ≥ 0, but is ", options.momentum);
  TSR_CHECK(options.weight_decay >= 0, "weight decay must be ≥ 0, but is ", options.weight_decay);
  TSR_CHECK(!options.nesterov || options.momentum > 0,
            "Nesterov needs a momentum > 0, but it is 0");
  return options;
}

}  // namespace

Sgd::Sgd(const Parameters& parameters, const SgdOptions& options)
    : weights_(parameters), options_(checked(options)) {
  if (options_.momentum == 0) return;
  for (const at::Tensor& weight : weights_.tensors()) {
    momenta_.push_back(at::zeros_like(weight.detach()));
  }
}

void Sgd::step(double learning_rate, const at::Tensor& gradient_factor) {
  check_learning_rate(learning_rate);
  const at::NoGradGuard no_grad;
  if (step_on_gpu(learning_rate, gradient_factor)) return;
  const MasterWeights::Pending pending = weights_.pending(gradient_factor.item<double>());
  if (pending.indices.empty()) return;
  const std::vector<at::Tensor> momenta =
      momenta_.empty() ? std::vector<at::Tensor>() : pending.of(momenta_);
  // Momenta start at zero, so that the first step is no special case.
  at::_fused_sgd_(pending.weights, pending.gradients, momenta, options_.weight_decay,
                  options_.momentum, learning_rate, /*dampening=*/0, options_.nesterov,
                  /*maximize=*/false, /*is_first_step=*/false);
  weights_.publish(pending);
}

bool Sgd::step_on_gpu(double learning_rate, const at::Tensor& gradient_factor) {
  const std::vector<MasterWeights::ForKernel> weights = weights_.for_kernel();
  if (weights.empty()) return false;
  std::vector<GpuSgdTensor> tensors;
  for (const auto& [index, parameter, gradient, weight] : weights) {
    tensors.push_back(
        {parameter, gradient, weight, momenta_.empty() ? at::Tensor() : momenta_[index]});
  }
  sgd_on_gpu(tensors, {.learning_rate = learning_rate,
                       .momentum = options_.momentum,
                       .weight_decay = options_.weight_decay,
                       .nesterov = options_.nesterov,
                       .gradient_factor = weights_.on_device(gradient_factor)});
  MasterWeights::publish(weights);
  return true;
}

std::vector<OptimizerState> Sgd::state() const {
  std::vector<OptimizerState> all;
  for (size_t i = 0; i < weights_.tensors().size(); ++i) {
    if (!momenta_.empty()) all.push_back({weights_.name(i), "momentum_buffer", momenta_[i]});
    weights_.append_state(i, all);
  }
  return all;
}

}  // namespace tessera

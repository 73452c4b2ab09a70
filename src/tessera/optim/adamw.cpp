#include "tessera/optim/adamw.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "tessera/base/check.h"
#include "tessera/kernel/adamw.h"
#include "tessera/optim/learning_rate.h"

namespace tessera {
namespace {

AdamWOptions checked(const AdamWOptions& options) {
  const auto is_beta = [](double beta) { return 0 <= beta && beta < 1; };
  TSR_CHECK(is_beta(options.beta1) && is_beta(options.beta2),
            "the betas of AdamW must be ≥ 0 and < 1, but are ", options.beta1, " and ",
            options.beta2);
  TSR_CHECK(options.eps >= 0, "eps of AdamW must be ≥ 0, but is ", options.eps);
  TSR_CHECK(options.weight_decay >= 0, "weight decay must be ≥ 0, but is ", options.weight_decay);
  return options;
}

}  // namespace

AdamW::AdamW(const Parameters& parameters, const AdamWOptions& options)
    : weights_(parameters), options_(checked(options)) {
  for (const at::Tensor& weight : weights_.tensors()) {
    const at::Tensor like = weight.detach();
    steps_.push_back(at::zeros({}, like.options().dtype(at::kFloat)));
    averages_.push_back(at::zeros_like(like));
    square_averages_.push_back(at::zeros_like(like));
  }
}

void AdamW::step(double learning_rate, const at::Tensor& gradient_factor) {
  check_learning_rate(learning_rate);
  const at::NoGradGuard no_grad;
  if (step_on_gpu(learning_rate, gradient_factor)) return;
  const MasterWeights::Pending pending = weights_.pending(gradient_factor.item<double>());
  if (pending.indices.empty()) return;
  const std::vector<at::Tensor> steps = pending.of(steps_);
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(pending.weights, pending.gradients, pending.of(averages_),
                    pending.of(square_averages_), at::TensorList(), steps, learning_rate,
                    options_.beta1, options_.beta2, options_.weight_decay, options_.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
  weights_.publish(pending);
}

bool AdamW::step_on_gpu(double learning_rate, const at::Tensor& gradient_factor) {
  const std::vector<MasterWeights::ForKernel> weights = weights_.for_kernel();
  if (weights.empty()) return false;
  std::vector<GpuAdamWTensor> tensors;
  std::vector<at::Tensor> steps;
  for (const auto& [index, parameter, gradient, weight] : weights) {
    steps.push_back(steps_[index]);
    tensors.push_back(
        {parameter, gradient, weight, averages_[index], square_averages_[index], steps_[index]});
  }
  const at::Tensor factor = weights_.on_device(gradient_factor);
  at::_foreach_add_(steps, at::isfinite(factor).to(at::kFloat));
  adamw_on_gpu(tensors, {.learning_rate = learning_rate,
                         .beta1 = options_.beta1,
                         .beta2 = options_.beta2,
                         .weight_decay = options_.weight_decay,
                         .eps = options_.eps,
                         .gradient_factor = factor});
  MasterWeights::publish(weights);
  return true;
}

std::vector<OptimizerState> AdamW::state() const {
  std::vector<OptimizerState> all;
  for (size_t i = 0; i < steps_.size(); ++i) {
    all.push_back({weights_.name(i), "step", steps_[i]});
    all.push_back({weights_.name(i), "exp_avg", averages_[i]});
    all.push_back({weights_.name(i), "exp_avg_sq", square_averages_[i]});
    weights_.append_state(i, all);
  }
  return all;
}

}  // namespace tessera

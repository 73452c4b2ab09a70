#pragma once

#include "tessera/base/export.h"
#include "tessera/optim/master_weights.h"
#include "tessera/optim/optimizer.h"

namespace tessera TSR_API {

/// Settings of AdamW.
struct AdamWOptions {
  double beta1 = 0.9;         // Decay rate of the mean gradient.
  double beta2 = 0.95;        // Decay rate of the mean squared gradient.
  double eps = 1e-8;          // Added to the square root of the mean squared gradient.
  double weight_decay = 0.1;  // Applied to every parameter.
};

/// Adam with decoupled weight decay: the update of torch.optim.AdamW, with a step count per
/// parameter, in one fused pass over memory. Shards that begin at multiples of 16 elements get the
/// same bits as the full tensor; on a CPU other shards may differ in the last bit.
class AdamW final : public Optimizer {
 public:
  explicit AdamW(const Parameters& parameters, const AdamWOptions& options = {});

  using Optimizer::step;
  void step(double learning_rate, const at::Tensor& gradient_factor) override;
  void zero_grad() override { weights_.zero_grad(); }
  /// "step" (a float32 scalar), "exp_avg", "exp_avg_sq" and "master", if there is a copy.
  std::vector<OptimizerState> state() const override;

 private:
  /// In one kernel, if there is one for these parameters.
  bool step_on_gpu(double learning_rate, const at::Tensor& gradient_factor);

  MasterWeights weights_;
  AdamWOptions options_;
  std::vector<at::Tensor> steps_, averages_, square_averages_;  // One of each per weight.
};

}  // namespace tessera

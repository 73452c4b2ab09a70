#pragma once

#include "tessera/base/export.h"
#include "tessera/optim/master_weights.h"
#include "tessera/optim/optimizer.h"

namespace tessera TSR_API {

/// Settings of SGD.
struct SgdOptions {
  double momentum = 0;      // Decay rate of the sum of gradients; 0: none is kept.
  bool nesterov = false;    // Needs a momentum > 0.
  double weight_decay = 0;  // Applied to every parameter; 0: none.
};

/// Stochastic gradient descent: the update of torch.optim.SGD without dampening.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(const Parameters& parameters, const SgdOptions& options = {});

  using Optimizer::step;
  void step(double learning_rate, const at::Tensor& gradient_factor) override;
  void zero_grad() override { weights_.zero_grad(); }
  /// "momentum_buffer", if there is momentum, and "master", if there is a copy.
  std::vector<OptimizerState> state() const override;

 private:
  /// In one kernel, if there is one for these parameters.
  bool step_on_gpu(double learning_rate, const at::Tensor& gradient_factor);

  MasterWeights weights_;
  SgdOptions options_;
  std::vector<at::Tensor> momenta_;  // One per weight; none without momentum.
};

}  // namespace tessera

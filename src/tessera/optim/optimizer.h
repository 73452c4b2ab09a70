#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// One tensor that an optimizer keeps for a parameter. It is a handle: who copies into it changes
/// the optimizer, as a checkpoint does.
struct OptimizerState {
  std::string name;  // The parameter's.
  std::string kind;  // As PyTorch calls it: "exp_avg", "step"; "master" for the float32 copy.
  at::Tensor tensor;
};

/// Changes parameters by their gradients.
///
///   AdamW optimizer(model.named_parameters(), {.weight_decay = 0.1});
///   for (int64_t step = 0; step < rate.steps; ++step) {
///     optimizer.zero_grad();
///     token_loss(model.forward(tokens), targets).backward();
///     optimizer.step(rate.at(step));
///   }
///
/// It is built over parameters that have their values, and holds on to them; what asks for no
/// gradient is left alone. Parameters of 16 bits are kept as float32 copies besides, which take the
/// updates and are rounded into the parameters. For one thread at a time.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// Changes every parameter that has a gradient. Those without one, and their state, stay.
  virtual void step(double learning_rate) = 0;

  /// Drops the gradients.
  virtual void zero_grad() = 0;

  /// All that the next step depends on besides parameters and gradients, parameter by parameter in
  /// their order. It is there, with its shapes, before the first step.
  virtual std::vector<OptimizerState> state() const = 0;
};

}  // namespace tessera

#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// One state tensor of a parameter.
struct OptimizerState {
  std::string name;  // Name of the parameter.
  std::string kind;  // PyTorch's name: "exp_avg", "step"; "master" for the float32 copy.
  /// Of this rank's part of the parameter. A handle: loading a checkpoint into it changes the
  /// optimizer.
  at::Tensor tensor;
};

/// Updates parameters by their gradients.
///
///   AdamW optimizer(model.named_parameters(), {.weight_decay = 0.1});
///   for (int64_t step = 0; step < rate.steps; ++step) {
///     optimizer.zero_grad();
///     token_loss(model.forward(tokens), targets).backward();
///     optimizer.step(rate.at(step));
///   }
///
/// Build it after the parameters have their values. It ignores parameters that do not require a
/// gradient. For 16-bit parameters it keeps float32 master copies, which it updates and rounds into
/// the parameters. One thread at a time.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// Updates every parameter that has a gradient. Those without one, and their state, do not
  /// change. The gradients count times `gradient_factor`, e.g. to clip them and to undo a loss
  /// scale in one pass. It multiplies 16-bit gradients in float32, others in place, where kernels
  /// of a GPU leave them as they are.
  ///
  /// The factor is a float64 scalar on any device. If it is non-finite, nothing changes. The kernel
  /// of a GPU reads it there, so that the host can queue the update before it knows the norm of the
  /// gradients. There is none for float64, and none if dtypes of parameters or gradients differ:
  /// then the host waits for the factor.
  virtual void step(double learning_rate, const at::Tensor& gradient_factor) = 0;
  /// The same with a number of the host.
  void step(double learning_rate, double gradient_factor = 1);

  /// Drops the gradients.
  virtual void zero_grad() = 0;

  /// The complete state, in the order of the parameters. It exists, with its shapes, before the
  /// first step.
  virtual std::vector<OptimizerState> state() const = 0;
};

}  // namespace tessera

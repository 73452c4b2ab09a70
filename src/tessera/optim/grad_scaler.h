#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How the loss scale of float16 grows and shrinks.
struct GradScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // Good steps in a row before the scale grows.
};

/// The loss scale of float16 training, as torch.amp.GradScaler chooses it. Small gradients would be
/// rounded to zero in float16, so the backward pass computes those of loss · scale. A step with
/// non-finite gradients is skipped and lowers the scale; many good steps raise it.
///
///   GradScaler scaler;
///   const at::Tensor loss = engine.train_step(inputs, targets, scaler.scale());
///   const double norm = engine.grad_norm() / scaler.scale();
///   if (std::isfinite(norm)) optimizer.step(rate, 1 / scaler.scale());
///   scaler.update(std::isfinite(norm));
class GradScaler {
 public:
  /// ConfigError if a factor would not raise or lower the scale.
  explicit GradScaler(const GradScalerOptions& options = {});

  double scale() const { return state_.scale; }
  /// After each step; `finite`: whether the gradients were finite. All ranks must pass the same.
  void update(bool finite);

  /// What a checkpoint needs.
  struct State {
    double scale = 0;
    int64_t growth_tracker = 0;  // Good steps since the scale last changed.

    friend bool operator==(const State&, const State&) = default;
  };
  const State& state() const { return state_; }
  void restore(const State& state);

 private:
  GradScalerOptions options_;
  State state_;
};

}  // namespace tessera

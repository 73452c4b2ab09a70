#pragma once

#include <cstdint>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How the loss scale of float16 grows and shrinks.
struct GradScalerOptions {
  double initial_scale = 65536;    // Of the first step.
  double growth_factor = 2;        // Multiplies the scale when it grows; above 1.
  double backoff_factor = 0.5;     // Multiplies the scale after a non-finite step; below 1.
  int64_t growth_interval = 2000;  // Good steps in a row before the scale grows.
};

/// The loss scale of float16 training, as torch.amp.GradScaler chooses it. Small gradients would be
/// rounded to zero in float16, so the backward pass computes those of loss · scale. A step with
/// non-finite gradients is skipped and lowers the scale; many good steps raise it.
///
///   GradScaler scaler;
///   const at::Tensor loss = engine.train_step(inputs, targets, scaler.scale());
///   const double norm = engine.grad_norm().item<double>() / scaler.scale();
///   if (std::isfinite(norm)) optimizer.step(rate, 1 / scaler.scale());
///   scaler.update(std::isfinite(norm));
class GradScaler {
 public:
  /// ConfigError if a factor would not raise or lower the scale.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// The factor of the loss in the next step.
  double scale() const { return state_.scale; }
  /// After each step; `finite`: whether the gradients were finite. All ranks must pass the same.
  void update(bool finite);

  /// What a checkpoint needs.
  struct State {
    double scale = 0;            // GradScaler::scale().
    int64_t growth_tracker = 0;  // Good steps since the scale last changed.

    friend bool operator==(const State&, const State&) = default;
  };
  /// After the last update().
  const State& state() const { return state_; }
  /// Continues with the state of a checkpoint. ConfigError unless the scale is finite and > 0 and
  /// the tracker ≥ 0.
  void restore(const State& state);

 private:
  GradScalerOptions options_;
  State state_;
};

}  // namespace tessera

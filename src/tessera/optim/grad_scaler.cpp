#include "tessera/optim/grad_scaler.h"

#include <cmath>
#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

void check_scale(double scale) {
  TSR_CHECK(scale > 0 && std::isfinite(scale), "the loss scale must be finite and > 0, but is ",
            scale);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), state_{.scale = options.initial_scale} {
  check_scale(options.initial_scale);
  TSR_CHECK(options.growth_factor > 1, "growth_factor must be > 1, but is ", options.growth_factor);
  TSR_CHECK(0 < options.backoff_factor && options.backoff_factor < 1,
            "backoff_factor must be > 0 and < 1, but is ", options.backoff_factor);
  TSR_CHECK(options.growth_interval >= 1, "growth_interval must be ≥ 1, but is ",
            options.growth_interval);
}

void GradScaler::update(bool finite) {
  if (!finite) {
    state_ = {.scale = state_.scale * options_.backoff_factor};
    return;
  }
  if (++state_.growth_tracker < options_.growth_interval) return;
  const double grown = state_.scale * options_.growth_factor;
  // The loss is float32, and so is its gradient.
  const bool fits = grown <= static_cast<double>(std::numeric_limits<float>::max());
  state_ = {.scale = fits ? grown : state_.scale};
}

void GradScaler::restore(const State& state) {
  check_scale(state.scale);
  TSR_CHECK(state.growth_tracker >= 0, "growth_tracker must be ≥ 0, but is ", state.growth_tracker);
  state_ = state;
}

}  // namespace tessera

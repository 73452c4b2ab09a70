#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The learning rate after the warm-up.
enum class LearningRateKind {
  kConstant,  // Constant.
  kCosine,    // Decays along half a cosine until the end.
  kLinear,    // Decays in a straight line until the end.
  kWsd,       // Warm-up, stable, decay: constant, then a linear decay at the end.
};

/// "constant", "cosine", "linear", "wsd".
std::string_view to_string(LearningRateKind kind);

/// The kind of this name, ignoring case. ConfigError with the nearest name if there is none.
LearningRateKind parse_learning_rate_kind(std::string_view text);

/// Every name that parse_learning_rate_kind accepts.
std::vector<std::string> learning_rate_kind_names();

/// The learning rate of each step of a run; steps count from 0.
///
/// It rises linearly from 0 at step -1 to `peak` at step `warmup`, and decays to `final` at step
/// `steps`, so that neither the first nor the last step has a rate of 0.
struct LearningRate {
  LearningRateKind kind = LearningRateKind::kConstant;  // After the warm-up.
  double peak = 1e-3;                                   // The rate at the end of the warm-up.
  double final = 0;                                     // The last rate; must be 0 for kConstant.
  int64_t warmup = 0;                                   // Steps before the first one at `peak`.
  int64_t steps = 0;  // Steps of the whole run; may be 0 for kConstant.
  int64_t decay = 0;  // Steps of the decay at the end; only for kWsd.

  /// The rate of a step; after the run, the last rate. ConfigError as check().
  double at(int64_t step) const;

  friend bool operator==(const LearningRate&, const LearningRate&) = default;
};

/// ConfigError unless the rate is finite and ≥ 0.
void check_learning_rate(double rate);

/// ConfigError if a rate is not finite or < 0, `final` > `peak`, warm-up and decay exceed the run,
/// or a member is set that the kind does not use.
void check(const LearningRate& rate);

}  // namespace tessera

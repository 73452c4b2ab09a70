#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// How the learning rate goes on after its warm-up.
enum class LearningRateKind {
  kConstant,  // It stays.
  kCosine,    // It falls along half a cosine until the end.
  kWsd,       // Warm-up, stable, decay: it stays, and falls in a straight line at the end.
};

/// "constant", "cosine", "wsd".
std::string_view to_string(LearningRateKind kind);

/// The kind of this name in any case. ConfigError with the nearest name for others.
LearningRateKind parse_learning_rate_kind(std::string_view text);

/// Every name that parse_learning_rate_kind takes.
std::vector<std::string> learning_rate_kind_names();

/// The learning rate of each step of a run; steps count from 0.
///
/// It rises in a straight line from 0 at step -1 to `peak` at step `warmup`, and falls to reach
/// `final` at step `steps`: neither the first nor the last step that runs is lost on a rate of 0.
struct LearningRate {
  LearningRateKind kind = LearningRateKind::kConstant;
  double peak = 1e-3;
  double final = 0;    // Where it falls to. The constant kind has none.
  int64_t warmup = 0;  // Steps before the first one at `peak`.
  int64_t steps = 0;   // Of the whole run. The constant kind does not need them: 0.
  int64_t decay = 0;   // The last steps, in which the wsd kind falls. Other kinds have none.

  /// That of one step; that of the end for steps after it. Refuses what check() refuses.
  double at(int64_t step) const;

  friend bool operator==(const LearningRate&, const LearningRate&) = default;
};

/// Refuses by a ConfigError what is no number from 0.
void check_learning_rate(double rate);

/// Refuses by a ConfigError what does not fit: rates that are no numbers from 0, `final` above
/// `peak`, more steps of warm-up and decay than the run has, members that the kind does not use.
void check(const LearningRate& rate);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Which losses are spikes.
struct SpikeOptions {
  double factor = 0;     // A spike is above this many times the median; 0: never.
  int64_t window = 100;  // Good steps whose median counts; at least kFewest.

  static constexpr int64_t kFewest = 20;  // There are no spikes before that many good steps.
};

/// Finds steps whose loss or gradient norm is far above that of the last good steps. It needs only
/// values that are the same on all ranks, so all ranks decide alike.
class SpikeDetector {
 public:
  /// ConfigError if the factor is not 0 or above 1, or the window is too small.
  explicit SpikeDetector(const SpikeOptions& options = {});

  /// Whether any step can be a spike.
  bool is_on() const { return options_.factor > 0; }
  /// What is above the limit, e.g. "the gradient norm 80 is 16 times the median of the last 100
  /// steps"; "" if the step is no spike.
  std::string find(double loss, double grad_norm) const;
  /// After each good step.
  void add(double loss, double grad_norm);

  /// The last steps as text, for checkpoints; exact.
  std::string state() const;
  /// DataError if the text is not from state().
  void restore(std::string_view state);

 private:
  struct Step {
    double loss = 0;
    double grad_norm = 0;
  };
  SpikeOptions options_;
  std::deque<Step> steps_;
};

}  // namespace tessera

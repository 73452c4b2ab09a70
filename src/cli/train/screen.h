#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tessera/draw/progress.h"
#include "tessera/run/metrics.h"

namespace tessera::cli {

/// Shows progress on stderr: a line redrawn in place on a terminal, otherwise at most one line per
/// second.
class TrainScreen {
 public:
  /// `begin` steps were done before, if the run was resumed.
  explicit TrainScreen(int64_t steps, int64_t begin = 0);
  /// Ends the line.
  ~TrainScreen();
  TrainScreen(const TrainScreen&) = delete;
  TrainScreen& operator=(const TrainScreen&) = delete;

  void show(const StepMetrics& metrics);
  /// A line of its own, above the progress.
  void say(const std::string& line) const;

 private:
  using Clock = std::chrono::steady_clock;
  void draw() const;
  void say_bad(const StepMetrics& metrics) const;

  bool terminal_;
  bool begun_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
  Progress progress_;
};

}  // namespace tessera::cli

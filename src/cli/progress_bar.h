#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/draw/progress.h"

namespace tessera::cli {

/// A bar on stderr, redrawn in place at most ten times a second; nothing if stderr is not a
/// terminal.
class RedrawnBar {
 public:
  RedrawnBar();
  /// Clears the line.
  ~RedrawnBar();
  RedrawnBar(const RedrawnBar&) = delete;
  RedrawnBar& operator=(const RedrawnBar&) = delete;

  /// Whether it is time to draw; the next time is later.
  bool is_due();
  void draw(double share, const std::vector<ProgressPart>& parts) const;
  /// Since it was made.
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

/// The bar of work on many bytes.
class ProgressBar {
 public:
  ProgressBar(std::string label, int64_t total_bytes);

  void add(int64_t bytes);

 private:
  void draw() const;

  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  RedrawnBar bar_;
};

/// "1.50 GB", "12.0 MB", "340 bytes".
std::string bytes_text(int64_t bytes);

}  // namespace tessera::cli

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera::cli {

/// A bar on stderr for work on many bytes, redrawn in place; nothing if stderr is not a terminal.
class ProgressBar {
 public:
  ProgressBar(std::string label, int64_t total_bytes);
  /// Clears the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void add(int64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  void draw() const;

  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

/// "1.50 GB", "12.0 MB", "340 bytes".
std::string bytes_text(int64_t bytes);

}  // namespace tessera::cli

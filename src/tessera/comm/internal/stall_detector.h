#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace tessera::comm::detail {

/// Detects when this process did not run, from the times at which it did.
class RunTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// A time in which the process did not run.
  struct Stall {
    Clock::time_point end;
    Clock::duration duration;
  };

  /// If two noted times are further apart than `longest`, the process did not run in between.
  RunTimes(Clock::duration longest, Clock::time_point start) : longest_(longest), last_(start) {}

  void note(Clock::time_point now);
  /// The last stall, including one that ends now.
  std::optional<Stall> last_stall(Clock::time_point now) const;

 private:
  Clock::duration longest_;
  Clock::time_point last_;
  std::optional<Stall> stall_ = std::nullopt;
};

/// Detects on its own thread that this process did not run for a while: it or its host was stopped,
/// or the host was too busy. After that, missing heartbeats of other ranks mean nothing until they
/// are read again.
class StallDetector {
 public:
  StallDetector(std::chrono::milliseconds interval, std::chrono::milliseconds longest);

  std::optional<RunTimes::Stall> last_stall() const;

 private:
  void run(const std::stop_token& end, std::chrono::milliseconds interval);

  mutable std::mutex mutex_;
  std::condition_variable_any ending_;
  RunTimes times_;
  std::jthread thread_;  // Last member: it ends first.
};

}  // namespace tessera::comm::detail

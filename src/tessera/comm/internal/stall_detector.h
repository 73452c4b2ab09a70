#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace tessera::comm::detail {

/// When this process ran, from moments at which it is known to have run.
class RunTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// A time without running, longer than moments are apart.
  struct Stall {
    Clock::time_point end;
    Clock::duration duration;
  };

  /// Moments that are further apart than `longest` mean that the process did not run in between.
  RunTimes(Clock::duration longest, Clock::time_point start) : longest_(longest), last_(start) {}

  void note(Clock::time_point now);
  /// The last stall, also if it ends just now.
  std::optional<Stall> last_stall(Clock::time_point now) const;

 private:
  Clock::duration longest_;
  Clock::time_point last_;
  std::optional<Stall> stall_ = std::nullopt;
};

/// Notices by a thread of its own when this process has not run for a while: it was stopped, its
/// host was, or had no time for it. Who then finds that another one has not answered for long must
/// ask again before it judges.
class StallDetector {
 public:
  StallDetector(std::chrono::milliseconds interval, std::chrono::milliseconds longest);

  std::optional<RunTimes::Stall> last_stall() const;

 private:
  void run(const std::stop_token& end, std::chrono::milliseconds interval);

  mutable std::mutex mutex_;
  std::condition_variable_any ending_;
  RunTimes times_;
  std::jthread thread_;  // Ends before the rest does.
};

}  // namespace tessera::comm::detail

#include "tessera/comm/internal/stall_detector.h"

namespace tessera::comm::detail {

void RunTimes::note(Clock::time_point now) {
  stall_ = last_stall(now);
  last_ = now;
}

std::optional<RunTimes::Stall> RunTimes::last_stall(Clock::time_point now) const {
  return now - last_ > longest_ ? std::optional(Stall{now, now - last_}) : stall_;
}

StallDetector::StallDetector(std::chrono::milliseconds interval, std::chrono::milliseconds longest)
    : times_(longest, RunTimes::Clock::now()),
      thread_([this, interval](const std::stop_token& end) { run(end, interval); }) {}

std::optional<RunTimes::Stall> StallDetector::last_stall() const {
  const std::lock_guard lock(mutex_);
  return times_.last_stall(RunTimes::Clock::now());
}

void StallDetector::run(const std::stop_token& end, std::chrono::milliseconds interval) {
  std::unique_lock lock(mutex_);
  while (!end.stop_requested()) {
    ending_.wait_for(lock, end, interval, [] { return false; });
    times_.note(RunTimes::Clock::now());
  }
}

}  // namespace tessera::comm::detail

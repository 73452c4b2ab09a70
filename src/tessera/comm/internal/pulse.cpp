#include "tessera/comm/internal/pulse.h"

namespace tessera::comm::detail {

void RunTimes::note(Clock::time_point now) {
  stop_ = last_stop(now);
  last_ = now;
}

std::optional<RunTimes::Stop> RunTimes::last_stop(Clock::time_point now) const {
  return now - last_ > longest_ ? std::optional(Stop{now, now - last_}) : stop_;
}

Pulse::Pulse(std::chrono::milliseconds beat, std::chrono::milliseconds longest)
    : times_(longest, RunTimes::Clock::now()),
      thread_([this, beat](const std::stop_token& end) { run(end, beat); }) {}

std::optional<RunTimes::Stop> Pulse::last_stop() const {
  const std::lock_guard lock(mutex_);
  return times_.last_stop(RunTimes::Clock::now());
}

void Pulse::run(const std::stop_token& end, std::chrono::milliseconds beat) {
  std::unique_lock lock(mutex_);
  while (!end.stop_requested()) {
    ending_.wait_for(lock, end, beat, [] { return false; });
    times_.note(RunTimes::Clock::now());
  }
}

}  // namespace tessera::comm::detail

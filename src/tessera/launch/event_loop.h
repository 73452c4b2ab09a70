#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>

#include "tessera/base/export.h"

namespace tessera TSR_API {

using Clock = std::chrono::steady_clock;

/// Waits for many descriptors at once and calls their handlers. Single-threaded.
class EventLoop {
 public:
  using Handler = std::function<void()>;

  /// Calls the handler on `events` (POLLIN, POLLOUT) and on a hang-up; a second call for the same
  /// descriptor replaces the first.
  void watch(int descriptor, int events, Handler handler);
  /// Call it before closing the descriptor. A handler may remove itself and others.
  void unwatch(int descriptor);
  /// Waits until something happens or the deadline passes, and calls the handlers once.
  void wait(Clock::time_point deadline);

 private:
  struct Watch {
    int events = 0;
    uint64_t number = 0;  // Tells a reused descriptor from the closed one.
    Handler handler;
  };
  std::map<int, Watch> watches_;
  uint64_t next_number_ = 0;
};

}  // namespace tessera

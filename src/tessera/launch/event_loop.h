#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>

#include "tessera/base/export.h"

namespace tessera TSR_API {

using Clock = std::chrono::steady_clock;

/// Waits for many descriptors at once and calls who asked. One thread.
class EventLoop {
 public:
  using Handler = std::function<void()>;

  /// Calls the handler whenever one of `events` (POLLIN, POLLOUT) or an end is there; a second call
  /// for the same descriptor replaces the first.
  void watch(int descriptor, int events, Handler handler);
  /// Before the descriptor is closed. A handler may take away itself and others.
  void unwatch(int descriptor);
  /// Waits until something happens or the deadline passes, and calls the handlers once.
  void wait(Clock::time_point deadline);

 private:
  struct Watch {
    int events = 0;
    uint64_t number = 0;  // A descriptor that was closed and given again is another watch.
    Handler handler;
  };
  std::map<int, Watch> watches_;
  uint64_t next_number_ = 0;
};

}  // namespace tessera

#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The clock of all time limits.
using Clock = std::chrono::steady_clock;

/// Waits for many descriptors at once and calls their handlers. Single-threaded.
class EventLoop {
 public:
  /// Called by wait().
  using Handler = std::function<void()>;

  EventLoop();

  /// Calls the handler on `events` (POLLIN, POLLOUT) and on a hang-up; a second call for the same
  /// descriptor replaces the first.
  void watch(int descriptor, int events, Handler handler);
  /// Call it before closing the descriptor. A handler may remove itself and others.
  void unwatch(int descriptor);
  /// Readable if a handler is due: another loop may watch it.
  int descriptor() const { return epoll_.get(); }
  /// Waits until something happens or the deadline passes, and calls the handlers once.
  void wait(Clock::time_point deadline);

 private:
  struct Watch {
    int events = 0;
    uint32_t number = 0;  // Tells a reused descriptor from the closed one.
    Handler handler;
  };
  void call(int descriptor, uint32_t number);

  Descriptor epoll_;  // Its cost depends on the events, not on the number of descriptors.
  std::unordered_map<int, Watch> watches_;
  std::set<int> always_ready_;  // Files and devices that epoll refuses.
  uint32_t next_number_ = 0;
};

}  // namespace tessera

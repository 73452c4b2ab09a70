#include "tessera/launch/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

namespace tessera {
namespace {

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT);

// Rounded up, so that the deadline has passed when epoll_wait returns.
int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

// The descriptor and the number of its watch, for the kernel.
uint64_t packed(int descriptor, uint32_t number) {
  return static_cast<uint64_t>(number) << 32U | static_cast<uint32_t>(descriptor);
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "the launcher cannot wait for its ranks")) {}

void EventLoop::watch(int descriptor, int events, Handler handler) {
  const auto [at, added] = watches_.try_emplace(descriptor);
  at->second.handler = std::move(handler);
  if (!added && at->second.events == events) return;
  at->second.events = events;
  at->second.number = next_number_++;
  epoll_event event{.events = static_cast<uint32_t>(events), .data = {}};
  event.data.u64 = packed(descriptor, at->second.number);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event) == 0) return;
  if (errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return;
  if (errno != EPERM) throw_system_error("the launcher cannot watch a descriptor");
  always_ready_.insert(descriptor);
}

void EventLoop::unwatch(int descriptor) {
  if (watches_.erase(descriptor) == 0) return;
  if (always_ready_.erase(descriptor) > 0) return;
  epoll_event none{};
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, &none);
}

void EventLoop::wait(Clock::time_point deadline) {
  constexpr int kMostEvents = 256;
  std::array<epoll_event, kMostEvents> events{};
  const int patience = always_ready_.empty() ? milliseconds_until(deadline) : 0;
  const int count = epoll_wait(epoll_.get(), events.data(), kMostEvents, patience);
  if (count < 0 && errno != EINTR) throw_system_error("the launcher cannot wait for its ranks");
  for (int i = 0; i < count; ++i) {
    const uint64_t data = events.at(static_cast<size_t>(i)).data.u64;
    call(static_cast<int>(data & UINT32_MAX), static_cast<uint32_t>(data >> 32U));
  }
  for (const int descriptor : std::vector(always_ready_.begin(), always_ready_.end())) {
    const auto found = watches_.find(descriptor);
    if (found != watches_.end()) call(descriptor, found->second.number);
  }
}

void EventLoop::call(int descriptor, uint32_t number) {
  const auto found = watches_.find(descriptor);
  if (found == watches_.end() || found->second.number != number) return;
  const Handler handler = found->second.handler;  // It may remove its own watch.
  handler();
}

}  // namespace tessera

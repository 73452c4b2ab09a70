#include "tessera/launch/event_loop.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "tessera/base/descriptor.h"

namespace tessera {
namespace {

// Rounded up, so that the deadline has passed when poll returns.
int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

}  // namespace

void EventLoop::watch(int descriptor, int events, Handler handler) {
  watches_[descriptor] = {events, next_number_++, std::move(handler)};
}

void EventLoop::unwatch(int descriptor) {
  watches_.erase(descriptor);
}

void EventLoop::wait(Clock::time_point deadline) {
  std::vector<pollfd> polled;
  std::vector<uint64_t> numbers;
  for (const auto& [descriptor, watch] : watches_) {
    polled.push_back({descriptor, static_cast<short>(watch.events), 0});
    numbers.push_back(watch.number);
  }
  if (poll(polled.data(), polled.size(), milliseconds_until(deadline)) < 0) {
    if (errno == EINTR) return;
    throw_system_error("the launcher cannot wait for its ranks");
  }
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    const auto found = watches_.find(polled[i].fd);
    if (found == watches_.end() || found->second.number != numbers[i]) continue;
    const Handler handler = found->second.handler;  // It may remove its own watch.
    handler();
  }
}

}  // namespace tessera

#include "tessera/comm/shm/collective_queue.h"

namespace tessera::comm::detail::shm {

Awaited CollectiveQueue::advance() {
  while (!queue_.empty()) {
    Collective& first = *queue_.front();
    first.steps.advance();
    if (!first.steps.ended()) return first.steps.awaited();
    if (const std::exception_ptr error = first.steps.error()) {
      fail(error);
      return {};
    }
    first.end();
    queue_.pop_front();
    set_unfinished(queue_.size());
  }
  return {};
}

void CollectiveQueue::fail(const std::exception_ptr& error) {
  error_ = error;
  for (const auto& collective : queue_) collective->end(error);
  queue_.clear();
  set_unfinished(0);
}

CollectiveQueue::Operation CollectiveQueue::start(Steps steps, Kept kept) {
  auto collective = std::make_shared<Collective>();
  collective->steps = std::move(steps);
  collective->kept = std::move(kept);
  {
    const std::lock_guard lock(mutex());
    if (error_) {
      collective->end(error_);
      return collective;
    }
    queue_.push_back(collective);
    set_unfinished(queue_.size());
    (void)advance();
  }
  if (!collective->ended.load(std::memory_order_relaxed)) tell_helper();
  return collective;
}

}  // namespace tessera::comm::detail::shm

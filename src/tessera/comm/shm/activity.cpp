#include "tessera/comm/shm/activity.h"

#include <optional>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::comm::detail::shm {
namespace {

using Clock = std::chrono::steady_clock;

class Count {
 public:
  explicit Count(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Count() { --count_; }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

void Pending::end(std::exception_ptr failure) {
  error = std::move(failure);
  kept.reset();
  ended.store(true, std::memory_order_release);
}

Activity::Activity(const Board& board, Patience& patience) : board_(board), patience_(patience) {}

bool Activity::wait_step(Pending& pending, Awaited& awaited) {
  const std::lock_guard lock(mutex_);
  if (!pending.ended.load(std::memory_order_acquire)) awaited = advance();
  if (!pending.ended.load(std::memory_order_acquire)) return false;
  if (pending.error) std::rethrow_exception(pending.error);
  return true;
}

// A rank may end right after its last part of an operation.
void Activity::fail_if_ended(const Awaited& awaited) {
  if (!board_.has_ended(awaited.rank) || awaited.reached()) return;
  const std::lock_guard lock(mutex_);
  fail(std::make_exception_ptr(CommError(concat("rank ", awaited.rank, " of the group (pid ",
                                                board_.pid(awaited.rank), ") has ended"))));
}

bool Activity::wait(Pending& pending, std::chrono::milliseconds timeout) {
  const Count waiting(waiters_);
  std::optional<Clock::time_point> deadline;
  for (;;) {
    Awaited awaited;
    if (wait_step(pending, awaited)) return true;
    if (awaited.counter == nullptr || patience_.wait(awaited)) continue;
    // Only now: reading the clock takes longer than a small operation's wait.
    const Clock::time_point now = Clock::now();
    if (!deadline) deadline = now + timeout;
    fail_if_ended(awaited);
    if (now >= *deadline && !pending.ended.load(std::memory_order_acquire)) return false;
  }
}

bool Activity::try_advance() {
  constexpr int kStallsPerLook = 64;  // Asking the system takes longer than a look at a counter.
  Awaited stuck;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return true;
    const Awaited before = std::exchange(last_awaited_, advance());
    if (before.counter != last_awaited_.counter || before.number != last_awaited_.number) {
      return true;
    }
    if (last_awaited_.counter == nullptr || ++stalls_ % kStallsPerLook != 0) return false;
    stuck = last_awaited_;
  }
  fail_if_ended(stuck);
  return false;
}

bool Activity::needs_helper() const {
  return unfinished_.load(std::memory_order_relaxed) > 0 &&
         waiters_.load(std::memory_order_relaxed) == 0;
}

}  // namespace tessera::comm::detail::shm

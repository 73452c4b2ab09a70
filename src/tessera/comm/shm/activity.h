#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>

#include "tessera/comm/shm/board.h"
#include "tessera/comm/shm/counter.h"

namespace tessera::comm::detail::shm {

/// An operation in flight.
struct Pending {
  Pending() = default;
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  std::exception_ptr error = nullptr;  // Valid once it has ended.
  std::shared_ptr<void> kept = {};     // The memory that it reads and writes.
  std::atomic<bool> ended = false;

  void end(std::exception_ptr failure = nullptr);
};

/// Operations that go on one after the other. Nothing happens between calls: the threads that wait
/// for an operation advance it, and the process's helper thread advances what no thread waits for.
///
/// Threads: any.
class Activity {
 public:
  Activity(const Board& board, Patience& patience);
  virtual ~Activity() = default;
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Waits until the operation has ended; false after the timeout. Throws its error, and if the
  /// rank that it waits for has ended.
  bool wait(Pending& pending, std::chrono::milliseconds timeout);
  /// Does what is possible without waiting, unless another thread is doing it already. Ends all
  /// operations with an error if the rank that they wait for has ended. Returns whether the
  /// operations went on since the last call.
  bool try_advance();
  /// Whether the helper has to advance it.
  bool needs_helper() const;

 protected:
  /// Does what is possible without waiting, and returns what it then waits for; no counter if
  /// nothing is left to do. The caller holds the lock.
  virtual Awaited advance() = 0;
  /// Ends all operations with this error. The caller holds the lock.
  virtual void fail(const std::exception_ptr& error) = 0;

  std::mutex& mutex() { return mutex_; }
  const Board& board() const { return board_; }
  /// The number of operations that have not ended; set by the derived class under the lock.
  void set_unfinished(size_t count) { unfinished_.store(count, std::memory_order_relaxed); }

 private:
  bool wait_step(Pending& pending, Awaited& awaited);
  void fail_if_ended(const Awaited& awaited);

  const Board& board_;
  Patience& patience_;
  std::mutex mutex_;
  Awaited last_awaited_;  // Of try_advance().
  unsigned stalls_ = 0;   // Of try_advance(): calls that found nothing new.
  std::atomic<size_t> unfinished_ = 0;
  std::atomic<int> waiters_ = 0;
};

}  // namespace tessera::comm::detail::shm

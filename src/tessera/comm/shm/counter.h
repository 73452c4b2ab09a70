#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::comm::detail::shm {

/// A number in shared memory that one rank increases and others wait for. 32 bits, because a futex
/// has no more; numbers are compared by their difference, so they may wrap.
struct Counter {
  std::atomic<uint32_t> value = 0;
  std::atomic<uint32_t> sleepers = 0;

  bool reached(uint32_t number) const {
    return static_cast<int32_t>(value.load(std::memory_order_acquire) - number) >= 0;
  }
  /// Everything written before is visible to those that see the number. Wakes sleepers.
  void set(uint32_t number);
};

/// A counter that must reach a number, and the rank that increases it.
struct Awaited {
  Counter* counter = nullptr;
  uint32_t number = 0;
  int rank = -1;

  bool reached() const { return counter->reached(number); }
};

/// Waits for counters: spins as long as that recently paid off, then yields, then sleeps.
class Patience {
 public:
  /// `crowded`: there are more ranks than cores, so spinning delays the rank that is waited for.
  explicit Patience(bool crowded) : most_spins_(crowded ? 50 : 1000) {}

  /// Returns whether the number was reached; gives up after 20 ms.
  bool wait(const Awaited& awaited);

 private:
  bool yield(const Awaited& awaited);

  const int most_spins_;
  std::atomic<int> spins_ = 100;   // Learned.
  std::atomic<int> yields_ = 500;  // The same.
};

}  // namespace tessera::comm::detail::shm

#include "tessera/comm/shm/counter.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>

namespace tessera::comm::detail::shm {
namespace {

constexpr int kFewestSpins = 8;
constexpr int kMostYields = 500;
constexpr auto kLongestYielding = std::chrono::microseconds(500);
constexpr int kFewYields = 50;  // In that time: other programs use the cores.
constexpr timespec kSleep{.tv_sec = 0, .tv_nsec = 20'000'000};

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Without FUTEX_PRIVATE_FLAG: the word is shared by processes.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

bool spin(const Awaited& awaited, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (awaited.reached()) return true;
    pause_core();
  }
  return false;
}

}  // namespace

void Counter::set(uint32_t number) {
  value.store(number, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) futex(value, FUTEX_WAKE, INT_MAX, nullptr);
}

// If other programs use the cores, a yield lasts until all of them had their turn, and a rank that
// sleeps is woken earlier.
bool Patience::yield(const Awaited& awaited) {
  using Clock = std::chrono::steady_clock;
  const int yields = yields_.load(std::memory_order_relaxed);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < yields; ++i) {
    if (awaited.reached()) {
      yields_.store(std::min(yields + yields / 4 + 1, kMostYields), std::memory_order_relaxed);
      return true;
    }
    sched_yield();
    if (Clock::now() - start < kLongestYielding) continue;
    if (i < kFewYields) yields_.store(std::max(yields / 2, 1), std::memory_order_relaxed);
    break;
  }
  return awaited.reached();
}

bool Patience::wait(const Awaited& awaited) {
  const int spins = spins_.load(std::memory_order_relaxed);
  if (spin(awaited, spins)) {
    spins_.store(std::min(spins + spins / 4 + 1, most_spins_), std::memory_order_relaxed);
    return true;
  }
  spins_.store(std::max(spins / 2, kFewestSpins), std::memory_order_relaxed);
  if (yield(awaited)) return true;
  Counter& counter = *awaited.counter;
  counter.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = counter.value.load(std::memory_order_seq_cst);
  if (!awaited.reached()) futex(counter.value, FUTEX_WAIT, seen, &kSleep);
  counter.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return awaited.reached();
}

}  // namespace tessera::comm::detail::shm

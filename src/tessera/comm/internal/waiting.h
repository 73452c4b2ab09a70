#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tessera/comm/internal/recorder.h"
#include "tessera/comm/internal/watchdog.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// An operation with other ranks that this rank waits for.
struct Waiting {
  std::function<std::string()> what;  // "all_reduce #17 of group dp"; only called on failure.
  std::span<const GlobalRank> members;
  /// Empty unless all members must make this call; only called after a while.
  std::function<std::optional<AwaitedCall>()> call = [] { return std::nullopt; };
  std::chrono::milliseconds timeout{};
  Watchdog* watchdog = nullptr;  // Null in a fake world.
  Recorder* recorder = nullptr;  // Null in a fake world.
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

/// To ask at once again, unless another thread wants the core.
constexpr std::chrono::microseconds kNoPause{0};
/// Asks again and again, for at most that long. Returns the last answer.
bool becomes_true(const std::function<bool()>& is_done, std::chrono::milliseconds limit,
                  std::chrono::microseconds pause);

/// Calls `step` until it returns true; each call waits at most the given time. CommError if `step`
/// throws, a rank is lost or the timeout expires: it names the operation, the time, and the missing
/// rank or the operations of all ranks.
void wait_in_steps(const Waiting& waiting,
                   const std::function<bool(std::chrono::milliseconds)>& step);

/// The same for a wait that cannot be split into steps, but can be aborted from another thread.
void wait_abortable(const Waiting& waiting,
                    const std::function<bool(std::chrono::milliseconds)>& wait,
                    const std::function<void()>& abort);

/// Runs `body` on another thread, which is abandoned if the wait fails.
void run_watched(const Waiting& waiting, std::function<void()> body);

}  // namespace tessera::comm::detail

#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>

#include "tessera/comm/internal/recorder.h"
#include "tessera/comm/internal/watchdog.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// Something that this rank waits for and that other ranks take part in.
struct Waiting {
  std::function<std::string()> what;  // "all_reduce #17 of group dp"; asked for on failure alone.
  std::span<const GlobalRank> members;
  std::chrono::milliseconds timeout{};
  Watchdog* watchdog = nullptr;  // Null in a fake world.
  Recorder* recorder = nullptr;  // The same.
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

/// Calls `step` until it says that the end is there; each call waits for at most the time it is
/// given. Throws CommError where `step` throws, a rank is lost or the time is up: it names the
/// operation, the time and the rank that is missing, or where all ranks are.
void wait_in_steps(const Waiting& waiting,
                   const std::function<bool(std::chrono::milliseconds)>& step);

/// The same for a wait that cannot be cut into steps, but ended from another thread.
void wait_abortable(const Waiting& waiting,
                    const std::function<bool(std::chrono::milliseconds)>& wait,
                    const std::function<void()>& abort);

/// Runs `body` on another thread, which is left behind where it has not ended when the wait fails.
void run_watched(const Waiting& waiting, std::function<void()> body);

}  // namespace tessera::comm::detail

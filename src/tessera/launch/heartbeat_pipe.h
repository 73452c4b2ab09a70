#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/environment.h"
#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"

namespace tessera TSR_API {

/// The pipe TESSERA_HEALTH_FD from a rank to the launcher of its node. A rank may send heartbeats:
/// lines "beat PLACE", where PLACE is its current operation. Any other byte says that the rank has
/// connected to the others. Each line is one write, so lines are never mixed.

/// The time without a heartbeat after which a rank is lost.
inline constexpr std::chrono::seconds kDefaultSilence{5};

/// TESSERA_SILENCE_SECONDS: the time without a heartbeat after which a rank is lost; nothing if it
/// is not set. ConfigError if it is not an integer ≥ 1.
std::optional<std::chrono::milliseconds> silence_setting(const Environment& environment);

/// The time between two heartbeats of a rank.
std::chrono::milliseconds heartbeat_interval(std::chrono::milliseconds silence);

/// The time between two heartbeats of a rank to the store, which serves all ranks of the job. Under
/// a launcher they only tell other ranks its place, so they may be rarer.
std::chrono::milliseconds store_heartbeat_interval(int64_t world_size, bool has_launcher);

/// One heartbeat, as a line with its '\n'.
std::string heartbeat_line(std::string_view place);

/// The launcher's end: the state of a rank, from the bytes of its pipe.
class HeartbeatReader {
 public:
  /// Takes bytes of the pipe that arrived at `now`.
  void add(std::string_view bytes, Clock::time_point now);
  /// The pipe is closed: no heartbeats follow.
  void close() { last_.reset(); }

  /// Whether the rank has connected to the others.
  bool is_healthy() const { return healthy_; }
  /// When the last heartbeat arrived; nothing if the rank sends none.
  std::optional<Clock::time_point> last() const { return last_; }
  /// The operation in the last heartbeat; may be empty.
  const std::string& place() const { return place_; }

 private:
  bool healthy_ = false;
  std::string unread_;  // An incomplete line.
  std::optional<Clock::time_point> last_;
  std::string place_;
};

}  // namespace tessera

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::comm::detail {

/// The place of a rank that waits for the others in World::close().
inline constexpr const char* kClosing = "close of the world";

/// A heartbeat, as a rank writes it to the store.
struct Heartbeat {
  int64_t count = 0;
  int64_t pid = 0;
  std::string host = {};
  bool inside = false;         // Whether the rank is in `operation`, or has completed it.
  std::string operation = {};  // "all_reduce #17 of group dp"; empty before the first.
  std::string end = {};        // Why the rank left; empty while it runs.
  /// In World::close(), after which a rank calls no operation: how many collectives it has called,
  /// by the name of the communicator.
  std::optional<std::map<std::string, int64_t>> calls_at_close = std::nullopt;
};

std::string to_text(const Heartbeat& heartbeat);
Heartbeat parse_heartbeat(const std::string& text);

/// "4.5 s".
std::string seconds_text(double seconds);

/// "rank 2 (pid 17 on host n1)".
std::string describe(int64_t rank, const Heartbeat& heartbeat);

/// What is known about a rank. `silent_seconds` is the time since its last heartbeat, if that is
/// too long.
struct RankReport {
  int64_t rank = 0;
  std::optional<Heartbeat> heartbeat = std::nullopt;
  std::optional<double> silent_seconds = std::nullopt;
};

/// Groups ranks by operation: "ranks 0, 1, 3 are in all_reduce #17 of group dp; rank 2 is in
/// barrier #16 of group world".
std::string summarize(const std::vector<RankReport>& reports);

}  // namespace tessera::comm::detail

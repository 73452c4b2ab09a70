#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::comm::detail {

/// A sign of life, as it stands in the store.
struct Heartbeat {
  int64_t count = 0;
  int64_t pid = 0;
  std::string host = {};
  bool inside = false;         // In `operation`; otherwise it was the last one.
  std::string operation = {};  // "all_reduce #17 of group dp"; empty before the first.
  std::string end = {};        // Not empty: this was the last sign, and why.
};

std::string to_text(const Heartbeat& heartbeat);
Heartbeat parse_heartbeat(const std::string& text);

/// "4.5 s".
std::string seconds_text(double seconds);

/// "rank 2 (pid 17 on host n1)".
std::string describe(int64_t rank, const Heartbeat& heartbeat);

/// A rank, and where it is; `silent` tells for how long it has given no sign of life.
struct RankReport {
  int64_t rank = 0;
  std::optional<Heartbeat> heartbeat = std::nullopt;
  std::optional<double> silent_seconds = std::nullopt;
};

/// Ranks in the same place are told together: "ranks 0, 1, 3 are in all_reduce #17 of group dp;
/// rank 2 is in barrier #16 of group world".
std::string summarize(const std::vector<RankReport>& reports);

}  // namespace tessera::comm::detail

#pragma once

#include <cstdint>
#include <string>

#include "tessera/schedule/schedule.h"

namespace tessera {

/// What was proved of a table.
struct Verification {
  bool communicates = false;               // It holds sends and receives of its own.
  SendMode sends = SendMode::kRendezvous;  // What they were taken to wait for.
  int64_t num_actions = 0;                 // Idle slots not counted.
  int64_t num_messages = 0;                // Between ranks; implied ones in a compute table.

  /// "complete, in order, no deadlock when every send waits for its receive (96 messages)".
  std::string to_string() const;
  friend bool operator==(const Verification&, const Verification&) = default;
};

/// Proves that every microbatch passes every stage exactly once in each direction, that each action
/// stands after what it needs, that sends and receives pair up in the same order on both sides, and
/// that no rank waits forever. ConfigError names row, column and rule of the first thing that does
/// not hold; for a deadlock, the cycle: who waits in which action for whom.
Verification verify(const Schedule& schedule);

}  // namespace tessera

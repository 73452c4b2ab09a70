#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// What was proved of a table.
struct Verification {
  bool communicates = false;               // Its messages are in the table; implied otherwise.
  SendMode sends = SendMode::kRendezvous;  // What a send was taken to wait for.
  bool same_order = true;    // Any two ranks send and receive in the same order: no names needed.
  int64_t num_actions = 0;   // Idle slots not counted.
  int64_t num_messages = 0;  // Between ranks.

  /// "complete, in order, no deadlock where a send waits for its receive (…)".
  std::string to_string() const;
  friend bool operator==(const Verification&, const Verification&) = default;
};

/// Proves that every microbatch passes every stage exactly once in each direction, that each action
/// stands after what it needs, that every send has its receive, and that no rank waits forever:
/// with sends that wait for their receives, or posted ones where the table says so
/// (Schedule::sends). ConfigError names row, column and rule of the first thing that does not hold;
/// for a deadlock, the cycle: who waits in which action for whom.
Verification verify(const Schedule& schedule);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// The proven properties of a table.
struct Verification {
  bool communicates = false;               // Messages are in the table; otherwise implied.
  SendMode sends = SendMode::kRendezvous;  // The assumed completion of sends.
  bool same_order = true;    // Any two ranks send and receive in the same order: no tags needed.
  int64_t num_actions = 0;   // Without idle slots.
  int64_t num_messages = 0;  // Between ranks.

  /// "complete, in order, no deadlock if a send waits for its receive (…)".
  std::string to_string() const;
  friend bool operator==(const Verification&, const Verification&) = default;
};

/// Proves that every microbatch passes every stage exactly once in each direction, that each action
/// follows its dependencies, that every send has its receive, and that no rank waits forever: with
/// sends that wait for their receives, or with posted ones (Schedule::sends). ConfigError with row,
/// column and rule of the first violation; for a deadlock, with the cycle of waiting actions.
Verification verify(const Schedule& schedule);

}  // namespace tessera

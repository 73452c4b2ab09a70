#pragma once

#include "tessera/comm/internal/operation.h"

namespace tessera::comm::detail {

/// Checked mode: **collective.** Before anything is sent, the members compare their calls. If they
/// differ, all throw the same CommError, which says which rank called what.
void compare_calls(const Call& call, const PendingOperation& operation);

/// The same for one message, between its two ends only and without waiting: the second end
/// compares. If they differ, it throws and notifies all ranks.
void compare_ends(const Message& message, const PendingOperation& operation);

}  // namespace tessera::comm::detail

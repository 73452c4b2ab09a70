#pragma once

#include "tessera/comm/internal/operation.h"

namespace tessera::comm::detail {

/// Checked mode: **collective.** Before anything is sent the members tell each other what they are
/// about to do; where that differs, all of them throw the same CommError, which says who called
/// what.
void compare_calls(const Call& call, const PendingOperation& operation);

/// The same for one message, by its two ends alone and without waiting: whoever comes second
/// compares, throws where they differ, and tells all ranks.
void compare_ends(const Message& message, const PendingOperation& operation);

}  // namespace tessera::comm::detail

#pragma once

#include <cstdint>

#include "tessera/schedule/schedule.h"

namespace tessera::golden {

/// How many time steps the peer's dry run of a lowered table takes: in each step every rank does
/// its next action if that is ready, in the order of ranks, and who was not ready is asked once
/// more at the end of the step. Actions on whole stages are left out.
int64_t peer_steps(const Schedule& lowered);

}  // namespace tessera::golden

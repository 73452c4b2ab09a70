#pragma once

#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// The row with UNSHARD and RESHARD: before each action, all-gathers the parameters of the next few
/// stages and frees others.
ScheduleRow with_gathers(const ScheduleRow& row);

/// The rows with a send after each result that another rank needs; its receive on that rank is
/// posted at the time of the send. `schedule` is the compute table, whose rows are in order;
/// ConfigError with the cycle if it would deadlock.
std::vector<ScheduleRow> with_early_receives(const Schedule& schedule,
                                             const std::vector<ScheduleRow>& rows);

/// The row of one rank with each receive deferred until just before it is needed, or until the rank
/// sends to a higher rank that it must receive from.
ScheduleRow with_deferred_receives(const Schedule& schedule, const ScheduleRow& row, size_t rank);

}  // namespace tessera::schedule::detail

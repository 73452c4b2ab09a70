#pragma once

#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// The row with gathers and frees of parameters: before each action the stages of the next few are
/// gathered and others freed.
ScheduleRow with_gathers(const ScheduleRow& row);

/// The rows with a send after each result that another rank needs and, at the moment it is sent,
/// its receive on that rank. `schedule` is the compute table, whose rows are in order; ConfigError
/// with the cycle where it can never end.
std::vector<ScheduleRow> with_early_receives(const Schedule& schedule,
                                             const std::vector<ScheduleRow>& rows);

/// The row of one rank with each receive put off until just before it is needed, or until the rank
/// sends to a higher rank that it has to receive from.
ScheduleRow with_deferred_receives(const Schedule& schedule, const ScheduleRow& row, size_t rank);

}  // namespace tessera::schedule::detail

#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

/// The costs of a verified table's actions per stage: medians of the measured times. The inverse of
/// `simulate`, except for what a table cannot tell:
///  - A backward that is never split counts half as input gradient, half as weight gradient.
///  - A message's time is known only if its receiver was free before the result was ready. A stage
///    without such a message gets the median of the others, or 0 if there are none.
Costs measure_costs(const Schedule& schedule, const Simulation& simulation);

/// The costs of the same model divided into another number of equal stages: joined stages add up
/// their times, split stages divide them.
Costs recut(const Costs& costs, int64_t from_stages, int64_t to_stages);

}  // namespace tessera

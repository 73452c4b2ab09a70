#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

/// What the actions of a verified table cost, stage by stage: medians of what was measured. It
/// undoes `simulate`, apart from what a table cannot tell:
///  - A backward that is never split counts half as input gradient, half as weight gradient.
///  - A message's time shows where its receiver was free before the result was made. A stage
///  without
///    such a message gets the median of the others, 0 where there is none.
Costs measure_costs(const Schedule& schedule, const Simulation& simulation);

/// The costs of the same model cut into another number of stages, each as long a part of it: where
/// stages are joined their times add up, where one is cut its parts share.
Costs recut(const Costs& costs, int64_t from_stages, int64_t to_stages);

}  // namespace tessera

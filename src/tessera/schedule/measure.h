#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera {

/// A schedule whose actions really happened, as a Simulation: of spans shaped like its rows.
Simulation measured(const Schedule& schedule, std::vector<std::vector<TimeSpan>> spans);

/// What the actions cost, stage by stage: medians of what was measured. It undoes `simulate`.
///  - A backward that was never split counts half as input gradient, half as weight gradient.
///  - A message's time is known where its receiver was free before it was made; a stage without
///    such a message gets the median of the others, 0 where there is none.
///  - Tasks that only occurred in overlaps share the overlap's time.
Costs measure_costs(const Schedule& schedule, const Simulation& simulation);

/// The costs of the same model cut into another number of equal stages: joined ones add up, cut
/// ones share.
Costs recut(const Costs& costs, int64_t from_stages, int64_t to_stages);

/// What another schedule would take.
struct Alternative {
  Schedule schedule;
  Simulation simulation;
  double time = 1;    // As shares of the present schedule: of its simulated makespan,
  double memory = 1;  // and of the activations that its fullest rank holds, in bytes.
};

/// Every kind that the ranks and microbatches allow, and the best that a search finds within the
/// memory of the present schedule (or the limit, in its activations): quickest first.
std::vector<Alternative> alternatives(const Schedule& present, const Costs& costs,
                                      std::optional<int64_t> memory_limit = std::nullopt);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

/// Another schedule, with time and memory relative to the present one.
struct Alternative {
  Schedule schedule;      // Verified; of the same ranks and microbatches.
  Simulation simulation;  // With the present costs, recut to its stages.
  double time = 1;        // Ratio of simulated makespans.
  double memory = 1;      // Ratio of peak activation bytes over ranks.
};

/// The kinds that these ranks and microbatches allow, with the costs of the present schedule's
/// stages, and the result of a search within its memory; fastest first. `memory_limit`, in
/// activations of the present schedule, replaces its own for the search and excludes kinds that
/// need more. The present schedule is not among them.
std::vector<Alternative> alternatives(const Schedule& present, const Costs& costs,
                                      std::optional<int64_t> memory_limit = std::nullopt);

}  // namespace tessera

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

/// What another schedule would take, as shares of the present one.
struct Alternative {
  Schedule schedule;
  Simulation simulation;
  double time = 1;    // Of its simulated makespan.
  double memory = 1;  // Of what the activations of its fullest rank take, in bytes.
};

/// The kinds that these ranks and microbatches allow, with the costs of the present schedule's
/// stages, and what a search finds within its memory: quickest first. `memory_limit`, in
/// activations of the present schedule, replaces its own for the search and leaves out kinds that
/// need more. The present schedule is not among them.
std::vector<Alternative> alternatives(const Schedule& present, const Costs& costs,
                                      std::optional<int64_t> memory_limit = std::nullopt);

}  // namespace tessera

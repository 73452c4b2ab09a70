#pragma once

#include <span>

#include "tessera/comm/group.h"
#include "tessera/parallel/pipeline/stage.h"
#include "tessera/schedule/schedule.h"

namespace tessera::pipeline::detail {

/// The schedule as it is executed: lowered if it is compute-only, and verified.
Schedule executable(const Schedule& schedule);

/// ConfigError unless the messages of an executable schedule meet in the order of its rows, and
/// none has to wait for a later one: NCCL has no tags, and the messages of a rank follow one
/// another.
void check_for_nccl(const Schedule& table);

/// **Collective.** ConfigError, the same on all ranks, unless all ranks have the same schedule, it
/// fits the group's size, and each rank has the stages that the schedule assigns to it.
void check_placing(std::span<const Stage> stages, const Schedule& schedule, const Group& group);

/// ConfigError if a stage has no forward function, or a hook that the schedule never calls.
void check_stages(std::span<const Stage> stages, const Schedule& schedule);

}  // namespace tessera::pipeline::detail

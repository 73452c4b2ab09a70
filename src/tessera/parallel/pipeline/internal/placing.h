#pragma once

#include <span>

#include "tessera/comm/group.h"
#include "tessera/parallel/pipeline/stage.h"
#include "tessera/schedule/schedule.h"

namespace tessera::pipeline::detail {

/// The table as it is executed: lowered where it is compute-only, and verified.
Schedule executable(const Schedule& schedule);

/// **Collective.** ConfigError, the same on all ranks, unless all have the same table, it is for so
/// many ranks, and each has the stages that the table gives it.
void check_placing(std::span<const Stage> stages, const Schedule& schedule, const Group& group);

/// ConfigError where a stage cannot be run, or has a hook that the table never calls.
void check_stages(std::span<const Stage> stages, const Schedule& schedule);

}  // namespace tessera::pipeline::detail

#pragma once

#include "cli/schedule/flags.h"

namespace tessera::cli {

/// `tessera schedule --from-trace RUN --units`: what a rank's units did in a recorded step, and how
/// long every rank waited for communication.
int show_units(const ScheduleFlags& flags);

}  // namespace tessera::cli

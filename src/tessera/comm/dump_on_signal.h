#pragma once

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// From now on SIGUSR1 does not end this process, but makes it write its last operations: those of
/// its worlds, or, where it is a job of one rank, none. World::connect() sees to that as well; call
/// this before, so that the signal does no harm while ranks wait for each other. A program that
/// handles SIGUSR1 itself keeps its own handler.
void dump_on_signal();

}  // namespace tessera

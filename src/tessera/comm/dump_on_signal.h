#pragma once

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// From now on SIGUSR1 does not end this process, but makes it dump the last operations of its
/// worlds (an empty dump in a job of one rank). World::connect() does this as well; call it
/// earlier, so that the signal is harmless while ranks wait for each other. If the program handles
/// SIGUSR1 itself, its handler stays.
void dump_on_signal();

}  // namespace tessera

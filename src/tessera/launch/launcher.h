#pragma once

#include "tessera/base/export.h"
#include "tessera/launch/options.h"

namespace tessera TSR_API {

/// Starts the ranks of this node, watches, restarts and stops them, together with the launchers of
/// the other nodes. Returns the exit code for the program: 0, the exit code of the rank that failed
/// first, 128 + a signal, 126 or 127 if the program cannot be started, 2 if the nodes' options
/// differ, 1 if a node is lost. ConfigError for bad options.
///
/// Takes over the process: signals, children, stdout and stderr. Single-threaded.
int launch(const LaunchOptions& options);

}  // namespace tessera

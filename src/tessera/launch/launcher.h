#pragma once

#include "tessera/base/export.h"
#include "tessera/launch/options.h"

namespace tessera TSR_API {

/// Starts the ranks of this node, watches them, restarts them and stops them, together with the
/// launchers of the other nodes. Returns what the program should end with: 0, the exit code of the
/// rank that failed first, 128 + a signal, 126 or 127 where the program cannot be started, 2 where
/// the nodes' options differ, 1 where a node is lost. ConfigError for bad options.
///
/// It takes over the process: signals, children, stdout and stderr. One thread only.
int launch(const LaunchOptions& options);

}  // namespace tessera

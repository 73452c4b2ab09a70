#pragma once

#include <string>

#include "tessera/config/train_config.h"

namespace tessera::cli {

/// Trains in this process: writes the run's folder, shows progress on stderr and results on stdout.
/// Returns the exit code: 128 + the signal number if a signal stopped the run early. `command` is
/// the user's command line, for the report.
int train_run(TrainConfig config, const std::string& command);

}  // namespace tessera::cli

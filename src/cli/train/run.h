#pragma once

#include <string>

#include "tessera/config/train_config.h"

namespace tessera::cli {

/// Trains in this process: writes the run's folder, shows how it goes on stderr and what came out
/// on stdout. Gives the exit code: 128 + the signal where one asked for an early end. `command` is
/// what the user gave, for the report.
int train_run(TrainConfig config, const std::string& command);

}  // namespace tessera::cli

#pragma once

#include <string>

#include "tessera/config/train_config.h"
#include "tessera/run/run_folder.h"

namespace tessera::cli {

/// The folder of a run, owned by it; errors of RunFolder.
RunFolder open_run_folder(const RunSection& run);

/// Trains in this process: writes the run's folder, shows progress on stderr and results on stdout.
/// Returns the exit code. If a signal stopped the run early, that is 128 + the signal number, or
/// kResumeExitCode after SIGTERM if the run saves checkpoints. `wanted` is the configuration that
/// the user gave, which `config` may fit to fewer nodes; `command` is the command line, for the
/// report.
int train_run(TrainConfig config, TrainConfig wanted, const std::string& command);

}  // namespace tessera::cli

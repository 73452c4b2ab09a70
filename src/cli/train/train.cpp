// `tessera train`: trains a Llama and leaves a run folder with all results.
#include <CLI/CLI.hpp>

#include <chrono>
#include <iostream>

#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/train/encode.h"
#include "cli/train/flags.h"
#include "cli/train/run.h"
#include "cli/verb_ranks.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/shell.h"
#include "tessera/comm/launch_info.h"
#include "tessera/launch/launcher.h"
#include "tessera/run/resume.h"
#include "tessera/train/job.h"
#include "tessera/train/texts.h"

namespace tessera::cli {
namespace {

void check_restarts(const TrainConfig& config, int64_t max_restarts) {
  TSR_CHECK(max_restarts == 0 || !config.run.dir.empty(), "--max-restarts ", max_restarts,
            " needs --run-dir, where each attempt finds the checkpoints of the one before");
}

int launch_ranks(const TrainConfig& config, const std::vector<std::string>& arguments) {
  check_restarts(config, config.run.max_restarts);
  // A run that its folder refuses need not wait for its texts or ranks.
  static_cast<void>(open_run_folder(config.run));
  if (!texts_to_encode(config).empty()) encode_texts_of(config);
  LaunchOptions options = verb_ranks("train", config.parallel.nproc, arguments);
  options.max_restarts = config.run.max_restarts;
  // Ranks that lost a peer have nothing to save. Without a restart they may write their reports.
  if (options.max_restarts > 0) options.grace = std::chrono::seconds(1);
  options.interrupt_grace = std::chrono::minutes(10);  // To end the step and save the weights.
  return launch(options);
}

int64_t number_in(const Environment& environment, const std::string& name) {
  return to_integer(environment(name).value_or("")).value_or(0);
}

// The configuration of this attempt of a job. Its launcher may have lost nodes.
TrainConfig of_attempt(const TrainConfig& config, const LaunchInfo& launch) {
  const Environment environment = process_environment();
  check_restarts(config, number_in(environment, "TORCHELASTIC_MAX_RESTARTS"));
  const TrainConfig now = launch.restart_count > 0 ? restarted(config) : config;
  const bool full = launch.world_size == config.parallel.nproc;
  const bool elastic = number_in(environment, "TESSERA_FULL_WORLD_SIZE") == config.parallel.nproc;
  return full || !elastic ? now : with_fewer_replicas(now, launch.world_size);
}

void check_world(const LaunchInfo& launch, int64_t nproc) {
  const std::string ranks = launch.world_size == 1 ? " rank" : " ranks";
  TSR_CHECK(launch.world_size == nproc, "the launcher (", launch.launcher, ") has started ",
            launch.world_size, ranks, ", but --nproc is ", nproc, "; give the same number to both");
}

std::string command_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"tessera", "train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return shell_command(words);
}

}  // namespace

int run_train(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Trains a Llama on texts or tokens, from initial values or from a Hugging Face folder. "
      "Without flags it trains a small one on this project's own sources, in about two minutes. "
      "Started by torchrun, mpirun or srun, this process is a rank of the job that they start.",
      "tessera train");
  TrainFlags flags;
  add_train_flags(app, flags);
  if (const auto done = parse(app, arguments)) return *done;
  const TrainConfig wanted = flags.config();
  if (flags.print_config) {
    data_out() << to_toml(wanted);
    return kOk;
  }
  const LaunchInfo launch = read_launch_info(process_environment());
  const bool launched = launch.launcher != "none";
  const TrainConfig config = launched ? of_attempt(wanted, launch) : wanted;
  check_job(config);
  if (launched) {
    check_world(launch, config.parallel.nproc);
  } else if (config.parallel.nproc > 1 || config.run.max_restarts > 0) {
    return launch_ranks(config, arguments);
  }  // Otherwise a single rank needs no launcher: it owns the terminal.
  return train_run(config, wanted, command_of(arguments));
}

}  // namespace tessera::cli

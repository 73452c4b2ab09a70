// `tessera train`: trains a Llama and leaves a run folder with all results.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <iostream>

#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/train/flags.h"
#include "cli/train/run.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/shell.h"
#include "tessera/comm/launch_info.h"
#include "tessera/launch/launcher.h"
#include "tessera/train/job.h"

namespace tessera::cli {
namespace {

// Each rank runs this program again, with its rank in the environment.
int launch_ranks(const TrainConfig& config, const std::vector<std::string>& arguments) {
  LaunchOptions options{.nproc = config.parallel.nproc};
  options.command = {std::filesystem::read_symlink("/proc/self/exe"), "train"};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.foreground = GlobalRank{0};                  // Rank 0 draws the progress.
  options.interrupt_grace = std::chrono::minutes(10);  // To end the step and save the weights.
  options.out_color = color_mode("auto", STDOUT_FILENO);
  options.err_color = color_mode("auto", STDERR_FILENO);
  return launch(options);
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
  const TrainConfig config = flags.config();
  if (flags.print_config) {
    data_out() << to_toml(config);
    return kOk;
  }
  check_job(config);
  const LaunchInfo launch = read_launch_info(process_environment());
  if (launch.launcher != "none") {
    check_world(launch, config.parallel.nproc);
  } else if (config.parallel.nproc > 1) {  // A single rank needs no launcher: it owns the terminal.
    return launch_ranks(config, arguments);
  }
  return train_run(config, command_of(arguments));
}

}  // namespace tessera::cli

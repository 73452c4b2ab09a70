// `tessera run`: starts, monitors, restarts and stops the ranks of a program.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/launch/launcher.h"

namespace tessera::cli {
namespace {

struct Flags {
  LaunchOptions options;
  std::optional<int64_t> max_restarts, master_port;
  bool standalone = false;
  std::string backend;  // For compatibility with torchrun; there is only one rendezvous here.
  std::string color = "auto";
};

constexpr const char* kFooter =
    "The program follows the flags, best after `--`: tessera run --nproc 4 -- ./train --steps 100\n"
    "Ranks find torchrun's variables: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT …;\n"
    "OMP_NUM_THREADS is 1 if it is not set and --nproc is more than 1.\n"
    "Several nodes: the same command on each, with --nnodes and --rdzv-endpoint.\n"
    "The exit code is that of the rank that failed first, or 128 + the signal that killed it.\n";

using Store = std::function<void(const std::string&)>;

void add_text(CLI::App& app, const std::string& names, const char* type, const Store& store,
              const std::string& help) {
  app.add_option_function<std::string>(names, store, help)->type_name(type);
}

void add_seconds(CLI::App& app, const std::string& flag, std::chrono::milliseconds& value,
                 const std::string& help) {
  const auto store = [flag, &value](const std::string& text) { value = parse_seconds(flag, text); };
  add_text(app, flag, "SECONDS", store, help);
}

void add_node_flags(CLI::App& app, Flags& flags) {
  LaunchOptions& options = flags.options;
  add_text(
      app, "--nnodes", "N", [&](const std::string& text) { set_nnodes(text, options); },
      "number of nodes (1), or MIN:MAX, which means --min-nodes MIN");
  add_integer(app, "--min-nodes", options.min_nodes,
              "continue with as few as N nodes if lost ones do not rejoin in time (--nnodes)");
  add_integer(app, "--node-rank", options.node_rank, "this node's number (order of arrival)");
  add_text(
      app, "--rdzv-endpoint", "HOST[:PORT]",
      [&](const std::string& text) { options.rendezvous = parse_endpoint(text); },
      "where the launchers meet: an address of node 0 (port 29400)");
  app.add_option("--rdzv-id", options.id, "the job's name, the same on all nodes (none)");
  add_seconds(app, "--rdzv-timeout", options.rendezvous_timeout,
              "how long to wait for all nodes (300)");
  add_seconds(app, "--rejoin-timeout", options.rejoin_timeout,
              "how long a restart waits for a lost node (30)");
  app.add_option("--master-addr", options.master_addr, "where rank 0 listens (node 0's address)");
  add_integer(app, "--master-port", flags.master_port, "port of rank 0 (a free one)");
}

// torchrun's flags that have no effect here.
void add_foreign_flags(CLI::App& app, Flags& flags) {
  app.add_flag("--no-python")->group("");
  add_choice(app, "--rdzv-backend", flags.backend, {"c10d", "static"}, "");
  app.get_option("--rdzv-backend")->group("");
}

void add_flags(CLI::App& app, Flags& flags) {
  LaunchOptions& options = flags.options;
  add_text(
      app, "--nproc,--nproc-per-node", "N",
      [&](const std::string& text) { options.nproc = parse_nproc(text); },
      "ranks per node: a number, gpu, cpu or auto (1)");
  add_integer(app, "--max-restarts", flags.max_restarts,
              "how often all ranks start again after a failure (0)");
  add_text(
      app, "--log-dir", "DIR", [&](const std::string& text) { options.log_dir = text; },
      "write DIR/attempt_N/rank_R.out and .err instead of the screen");
  add_seconds(app, "--grace", options.grace,
              "seconds between SIGTERM and SIGKILL for ranks that must stop (5)");
  add_text(
      app, "--interrupt-grace", "SECONDS",
      [&](const std::string& text) {
        options.interrupt_grace = parse_seconds("--interrupt-grace", text);
      },
      "the same after a signal to the launcher, so that ranks can save their state (--grace)");
  add_seconds(app, "--monitor-interval", options.monitor_interval,
              "the longest time between two checks of the ranks; events are seen at once (1)");
  app.add_flag("--standalone", flags.standalone, "one node; for compatibility with torchrun");
  add_color(app, flags.color);
  add_node_flags(app, flags);
  add_foreign_flags(app, flags);
  app.footer(kFooter);
}

// "--nproc_per_node" as "--nproc-per-node"; the text after '=' stays the same.
std::string with_dashes(std::string word) {
  const auto name_end =
      word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size()));
  std::replace(word.begin(), name_end, '_', '-');
  return word;
}

bool takes_value(const CLI::App& app, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

// Takes the flags up to `--` or to the first word that no flag accepts; the rest is the program and
// its arguments.
std::vector<std::string> take_flags(const CLI::App& app, const std::vector<std::string>& words,
                                    std::vector<std::string>& command) {
  std::vector<std::string> flags;
  size_t at = 0;
  while (at < words.size() && words[at] != "--" && words[at].starts_with("-")) {
    flags.push_back(with_dashes(words[at++]));
    if (takes_value(app, flags.back()) && at < words.size()) flags.push_back(words[at++]);
  }
  if (at < words.size() && words[at] == "--") ++at;
  command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return flags;
}

LaunchOptions options_of(const Flags& flags) {
  LaunchOptions options = flags.options;
  TSR_CHECK(!flags.standalone || options.nnodes == 1,
            "--standalone means one node, but --nnodes is ", options.nnodes,
            "; leave one of them out");
  options.max_restarts = flags.max_restarts.value_or(0);
  TSR_CHECK(flags.master_port.value_or(1) != 0,
            "--master-port 0 is not a port; leave it out for a free one");
  options.master_port = flags.master_port.value_or(0);
  if (options.rendezvous.host.empty()) options.rendezvous.host = options.master_addr;
  options.out_color = color_mode(flags.color, STDOUT_FILENO);
  options.err_color = color_mode(flags.color, STDERR_FILENO);
  options.width = isatty(STDERR_FILENO) == 1 ? terminal_width(STDERR_FILENO) : 80;
  return options;
}

}  // namespace

int run_run(const std::vector<std::string>& arguments) {
  CLI::App app("Starts a program's ranks, watches them, restarts them and stops them.",
               "tessera run");
  Flags flags;
  add_flags(app, flags);
  const std::vector<std::string> given = take_flags(app, arguments, flags.options.command);
  if (const auto done = parse(app, given)) return *done;
  return launch(options_of(flags));
}

}  // namespace tessera::cli

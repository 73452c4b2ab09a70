// `tessera watch`: the report of a run in the browser, while the run goes on.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "cli/parse.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/error_words.h"
#include "tessera/base/terminal_text.h"
#include "tessera/run/live_report.h"

namespace tessera::cli {
namespace {

volatile std::sig_atomic_t signal_taken = 0;

void take_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = [](int) { signal_taken = 1; };
    sigaction(number, &action, nullptr);
  }
}

// A run that is damaged for a moment does not end the server.
std::optional<ServedPage> page_of(LiveReport& report, std::string_view path) {
  try {
    return report.page(path);
  } catch (const Error& error) {
    std::cerr << "tessera: " << visible_lines(error_words(error)) << "\n";
    return std::nullopt;
  }
}

}  // namespace

int run_watch(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Shows the report of a run in the browser, while the run goes on: the page updates by "
      "itself. The server answers on 127.0.0.1 only. Ctrl-C ends it.",
      "tessera watch");
  std::string run;
  int64_t port = 0;
  app.add_option("run", run, "the run directory")->type_name("RUN");
  app.add_option("--port", port, "the port (the first free one from 8600 on)")
      ->type_name("N")
      ->check(CLI::Range(1, 65535));
  if (const auto done = parse(app, arguments)) return *done;
  TSR_CHECK(!run.empty(), "a run directory is required: tessera watch RUN");

  LiveReport report(run);
  PageServer server(port, [&](std::string_view path) { return page_of(report, path); });
  take_signals();
  std::cout << concat("watching ", visible(run), " at ", server.address(), "  (Ctrl-C ends it)")
            << std::endl;
  while (signal_taken == 0) server.serve(Clock::now() + std::chrono::milliseconds(500));
  return kOk;
}

}  // namespace tessera::cli

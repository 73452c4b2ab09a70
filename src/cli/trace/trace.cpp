// `tessera trace`: analyses the flight-recorder dumps of a run's ranks and writes a trace of them.
#include "cli/trace/text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "cli/files.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/shell.h"
#include "tessera/base/terminal_text.h"
#include "tessera/draw/flight_trace.h"

namespace tessera::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  std::string out = "trace.json";
  std::string color = "auto";
};

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("files", flags.files, "dumps, one per rank")->type_name("FILES");
  app.add_option("--out", flags.out, "file for the trace (trace.json)")->type_name("FILE");
  add_color(app, flags.color);
  app.footer("ui.perfetto.dev opens the trace. Times are by the clock of each rank's host.\n");
}

std::string text_of(const std::string& path) {
  TSR_CHECK(!std::filesystem::is_directory(path), path, " is a folder; name the dumps in it, e.g. ",
            shell_word(path), "/*.json");
  return read_file(path, kLargestFlightDump);
}

std::vector<FlightDump> read_dumps(const std::vector<std::string>& paths) {
  TSR_CHECK(!paths.empty(), "no dumps were given; name the files that the ranks wrote, e.g. ",
            "tessera trace DIR/*.json");
  std::vector<FlightDump> dumps;
  for (const std::string& path : paths) dumps.push_back(parse_flight_dump(text_of(path), path));
  check_one_run(dumps, paths);
  std::ranges::sort(dumps, {}, &FlightDump::rank);
  return dumps;
}

std::string trace_of(const std::vector<FlightDump>& dumps) {
  std::ostringstream trace;
  write_flight_trace(dumps, trace);
  return std::move(trace).str();
}

std::string title_of(const FlightDump& dump) {
  return concat("job ", dump.job, dump.restart == 0 ? "" : concat(", restart ", dump.restart));
}

}  // namespace

int run_trace(const std::vector<std::string>& arguments) {
  CLI::App app("Analyses the flight-recorder dumps of a run's ranks and writes a trace.",
               "tessera trace");
  Flags flags;
  add_flags(app, flags);
  if (const auto done = parse(app, arguments)) return *done;

  TSR_CHECK(std::ranges::find(flags.files, flags.out) == flags.files.end(), "--out ", flags.out,
            " is one of the dumps; name another file");
  const std::vector<FlightDump> dumps = read_dumps(flags.files);
  write_file(flags.out, trace_of(dumps));
  write_flight_text(title_of(dumps.front()), analyse_flight(dumps), color_mode(flags.color),
                    std::cout);
  std::cout << "\ntrace: " << visible(flags.out) << " (ui.perfetto.dev opens it)\n";
  return kOk;
}

}  // namespace tessera::cli

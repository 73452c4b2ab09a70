// `tessera trace`: analyses the flight-recorder dumps of a run's ranks and writes a trace of them.
#include "cli/trace/text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>

#include "cli/called_as.h"
#include "cli/files.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/draw/flight_trace.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::vector<std::string> files;
  std::string out = "trace.json";
  std::string color = "auto";
};

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("files", flags.files, "dumps, one per rank, or a folder of them")
      ->type_name("FILES");
  app.add_option("--out", flags.out, "file for the trace (trace.json)")->type_name("FILE");
  add_color(app, flags.color);
  app.footer("ui.perfetto.dev opens the trace. Times are those of each host's clock.\n");
}

// The dumps in a folder, or the path itself.
std::vector<std::string> files_at(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  TSR_CHECK(!files.empty(), path, " holds no dumps (*.json)");
  std::ranges::sort(files);
  return files;
}

std::vector<FlightDump> read_dumps(const std::vector<std::string>& given) {
  TSR_CHECK(!given.empty(), "no dumps were given; name the files that the ranks wrote, or their ",
            "folder: ", called_as(), " trace DIR");
  std::vector<std::string> paths;
  std::vector<FlightDump> dumps;
  for (const std::string& one : given) std::ranges::copy(files_at(one), std::back_inserter(paths));
  for (const std::string& path : paths) {
    dumps.push_back(parse_flight_dump(read_file(path, kLargestFlightDump), path));
  }
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

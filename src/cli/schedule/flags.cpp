#include "cli/schedule/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "cli/parse.h"
#include "tessera/base/check.h"
#include "tessera/schedule/kind.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLongestTime = 1'000'000;  // Keeps sums of millions within a trace's range.

double time_of(const std::string& flag, std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  const bool is_time = error == std::errc() && stopped == end && value >= 0 &&
                       value <= static_cast<double>(kLongestTime);
  TSR_CHECK(is_time, flag, " '", text, "' is not a time; write numbers from 0 to ",
            with_thousands(kLongestTime), ", one for all stages or one for each: ", flag,
            " 1.5 or ", flag, " 1,1,1,2");
  return value;
}

void add_times(CLI::App& app, const std::string& flag, ScheduleFlags& flags,
               std::vector<double>& times, const std::string& help) {
  const auto store = [flag, &flags, &times](const std::string& text) {
    flags.times_given = true;
    times.clear();
    for (const auto part : split(text, ',')) times.push_back(time_of(flag, part));
  };
  app.add_option_function<std::string>(flag, store, help)->type_name("T");
}

void add_file(CLI::App& app, const std::string& flag, std::optional<std::string>& path,
              const std::string& help) {
  app.add_option(flag, path, help)->type_name("FILE");
}

void check_times(const Costs& costs) {
  const auto nothing = [](const std::vector<double>& times) {
    return std::ranges::count(times, 0.0) == std::ssize(times);
  };
  TSR_CHECK(!nothing(costs.forward) || !nothing(costs.input_grad) || !nothing(costs.weight_grad),
            "--f, --i and --w are all 0, so that nothing takes time; give one that does");
}

void check_results(const ScheduleFlags& flags) {
  std::vector<std::string> taken;
  if (flags.json) taken.emplace_back("-");
  for (const auto& path : {flags.svg, flags.html, flags.trace, flags.csv}) {
    if (!path) continue;
    TSR_CHECK(std::ranges::find(taken, *path) == taken.end(), "two results go to ",
              *path == "-" ? "stdout" : *path, "; give each a file of its own");
    taken.push_back(*path);
  }
  TSR_CHECK(!flags.csv || flags.compare.empty(),
            "--csv writes one table; give it without --compare");
}

// A recorded run already determines the schedule and its times.
void check_recorded(const ScheduleFlags& flags) {
  const std::array<std::pair<const char*, bool>, 8> strangers{{
      {"--kind", flags.kind.has_value()},
      {"--csv-in", flags.csv_in.has_value()},
      {"--compare", !flags.compare.empty()},
      {"--pp", flags.pp.has_value()},
      {"--microbatches", flags.microbatches.has_value()},
      {"--stages-per-rank", flags.stages_per_rank.has_value()},
      {"--f, --i, --w or --comm", flags.times_given},
      {"--same-work", flags.same_work},
  }};
  for (const auto& [flag, given] : strangers) {
    TSR_CHECK(!given, flag, " does not go with --from-trace, which takes all of it from the run ",
              "and tries every kind; leave it out");
  }
}

// Units are no table of actions, so that there is no page, CSV or limit for them.
void check_units(const ScheduleFlags& flags) {
  TSR_CHECK(flags.units || !flags.rank, "--rank ", flags.rank.value_or(0),
            " selects whose units are shown; give --units as well");
  if (!flags.units) return;
  TSR_CHECK(flags.from_trace, "--units shows a recorded step; name its run with --from-trace");
  const std::array<std::pair<const char*, bool>, 3> strangers{{
      {"--html", flags.html.has_value()},
      {"--csv", flags.csv.has_value()},
      {"--memory-limit", flags.memory_limit.has_value()},
  }};
  for (const auto& [flag, given] : strangers) {
    TSR_CHECK(!given, flag, " does not go with --units; use --svg, --trace or --json");
  }
}

}  // namespace

bool ScheduleFlags::is_example() const {
  return !kind && !csv_in && !from_trace && compare.empty() && !pp && !microbatches &&
         !stages_per_rank;
}

bool ScheduleFlags::uses_stdout() const {
  const auto is_stdout = [](const auto& path) { return path == "-"; };
  return json || std::ranges::any_of(std::array{svg, html, trace, csv}, is_stdout);
}

std::vector<std::string> ScheduleFlags::kinds() const {
  std::vector<std::string> words;
  if (kind) words.push_back(*kind);
  words.insert(words.end(), compare.begin(), compare.end());
  if (words.empty() && !csv_in) words.emplace_back("1f1b");
  std::vector<std::string> names;
  for (const std::string& word : words) {
    const std::string name(to_string(parse_schedule_kind(word)));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

void add_schedule_flags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("--kind", flags.kind, "the schedule (1f1b)")->type_name("KIND");
  add_integer(app, "--pp", flags.pp, "ranks of the pipeline");
  add_integer(app, "--microbatches", flags.microbatches, "micro-batches per step");
  add_integer(app, "--stages-per-rank", flags.stages_per_rank,
              "stages per rank (1; 2 for kinds with several)");
  add_times(app, "--f", flags, flags.costs.forward, "time of a forward, per stage (1)");
  add_times(app, "--i", flags, flags.costs.input_grad, "time of an input gradient (1)");
  add_times(app, "--w", flags, flags.costs.weight_grad, "time of a weight gradient (1)");
  add_times(app, "--comm", flags, flags.costs.message, "time of a message between ranks (0)");
  app.add_flag("--same-work", flags.same_work, "the times are for all stages of a rank together");
  add_integer(app, "--memory-limit", flags.memory_limit, "activations that a rank may hold");
  app.add_option("--compare", flags.compare, "kinds to show on one time axis")
      ->delimiter(',')
      ->type_name("KIND,KIND");
  add_file(app, "--csv-in", flags.csv_in, "show your own schedule");
  app.add_option("--from-trace", flags.from_trace,
                 "the recorded step of a run, and faster schedules")
      ->type_name("RUN");
  add_integer(app, "--step", flags.step, "which of its recorded steps (the last)");
  app.add_flag("--units", flags.units,
               "when its units were gathered, computed, freed and reduced (FSDP)");
  add_integer(app, "--rank", flags.rank, "whose units (the first recorded rank's)");
  add_file(app, "--svg", flags.svg, "write the picture to this file");
  add_file(app, "--html", flags.html, "write a page to explore it");
  add_file(app, "--trace", flags.trace, "write a trace for ui.perfetto.dev");
  add_file(app, "--csv", flags.csv, "write the table");
  app.add_flag("--json", flags.json, "print JSON");
  add_color(app, flags.color);
  app.footer(
      concat("Kinds: ", join(schedule_kind_names(), ", "),
             ".\nA full backward takes i + w. Times are one for all stages, or one per stage: "
             "1,1,1,2. FILE may be -, stdout.\nWithout a kind and sizes an example is shown: "
             "--kind 1f1b --pp 4 --microbatches 8.\n"));
}

void check_together(const ScheduleFlags& flags) {
  TSR_CHECK(flags.from_trace || !flags.step, "--step ", flags.step.value_or(0),
            " is a recorded one's; name its run with --from-trace");
  if (flags.from_trace) check_recorded(flags);
  check_units(flags);
  TSR_CHECK(!flags.csv_in || !flags.kind, "--kind ", flags.kind.value_or(""),
            " and --csv-in are two schedules; name further ones with --compare");
  static_cast<void>(flags.kinds());  // Unknown names are refused before sizes are asked for.
  TSR_CHECK(
      flags.csv_in || flags.from_trace || flags.is_example() || (flags.pp && flags.microbatches),
      flags.pp ? "--microbatches" : "--pp",
      " is missing; give both sizes, e.g. --pp 4 --microbatches 8");
  TSR_CHECK(flags.stages_per_rank.value_or(1) > 0, "--stages-per-rank ",
            flags.stages_per_rank.value_or(0), " is not positive; a rank has at least 1 stage");
  check_times(flags.costs);
  check_results(flags);
}

}  // namespace tessera::cli

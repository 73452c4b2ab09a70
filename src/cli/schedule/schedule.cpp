// `tessera schedule`: verifies, simulates and draws pipeline schedules, without starting any
// process.
#include "cli/schedule/view.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/parse.h"
#include "cli/schedule/flags.h"
#include "cli/schedule/recorded.h"
#include "cli/schedule/results.h"
#include "cli/schedule/units.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/schedule/choose.h"
#include "tessera/schedule/search.h"

namespace tessera::cli {
namespace {

Costs costs_of(const ScheduleFlags& flags, int64_t stages_per_rank) {
  Costs costs = flags.costs;
  if (!flags.same_work) return costs;
  for (std::vector<double>* times : {&costs.forward, &costs.input_grad, &costs.weight_grad}) {
    for (double& time : *times) time /= static_cast<double>(stages_per_rank);
  }
  return costs;
}

ScheduleView view_of(Schedule schedule, const Costs& costs) {
  const Verification verification = verify(schedule);
  Simulation simulation = simulate(schedule, costs);
  return {std::move(schedule), verification, std::move(simulation), ""};
}

// How far the search got.
std::string origin_of(const SearchResult& found) {
  const double span = longest_span(found.simulation);
  const std::string known = !found.family ? "no known family fits"
                                          : concat(found.improved ? "better than " : "as good as ",
                                                   to_string(*found.family));
  return concat(
      "found by search: ", known, "; longest span ", span,
      span > found.bound ? concat(", lower bound ", found.bound) : ", the least that is possible");
}

ScheduleView view_of(SearchResult found) {
  std::string origin = origin_of(found);
  const Verification verification = verify(found.schedule);
  return {std::move(found.schedule), verification, std::move(found.simulation), std::move(origin)};
}

ScheduleView view_of_kind(const std::string& word, const ScheduleFlags& flags) {
  const ScheduleKind kind = parse_schedule_kind(word);
  // In a comparison, kinds with one stage per rank keep one; auto uses the requested number.
  const bool among_others = flags.kinds().size() > 1 || flags.csv_in;
  const bool one = is_single_stage(kind) && kind != ScheduleKind::kAuto && among_others;
  const int64_t stages = one ? 1 : flags.stages_per_rank.value_or(default_stages_per_rank(kind));
  const ScheduleConfig config{.kind = kind,
                              .pp = *flags.pp,
                              .microbatches = *flags.microbatches,
                              .stages_per_rank = stages};
  const Costs costs = costs_of(flags, stages);
  const ScheduleShape shape{config.pp, checked_multiply(config.pp, stages, "stages"),
                            config.microbatches};
  if (is_generated(kind)) {
    check_config(config);
    check_table_size(shape, TableOrigin::kMade);
    return view_of(make_schedule(config, costs, flags.memory_limit), costs);
  }
  const SearchRequest request = search_request(config, costs, flags.memory_limit);
  check_table_size(shape, TableOrigin::kSearched);
  return view_of(search(request));
}

// The kinds that a user's table is compared with take its sizes.
void adopt_sizes(ScheduleFlags& flags, const Schedule& table) {
  const auto adopt = [](std::optional<int64_t>& size, int64_t of_table, const char* flag) {
    TSR_CHECK(!size || *size == of_table, flag, " ", size.value_or(0), " is not the table's ",
              of_table, "; leave it out");
    size = of_table;
  };
  adopt(flags.pp, table.pp(), "--pp");
  adopt(flags.microbatches, table.microbatches(), "--microbatches");
}

std::vector<ScheduleView> views_of(ScheduleFlags flags) {
  std::vector<ScheduleView> views;
  if (flags.is_example()) {
    flags.pp = 4;
    flags.microbatches = 8;
  }
  if (flags.csv_in) {
    TSR_CHECK(!flags.kinds().empty() || (!flags.stages_per_rank && !flags.memory_limit),
              flags.memory_limit ? "--memory-limit" : "--stages-per-rank",
              " is for kinds; a table of your own is what it is. Leave it out, or add --compare");
    Schedule table = read_schedule(*flags.csv_in);
    adopt_sizes(flags, table);
    const Costs costs = costs_of(flags, table.num_stages() / table.pp());
    views.push_back(view_of(std::move(table), costs));
  }
  for (const std::string& kind : flags.kinds()) views.push_back(view_of_kind(kind, flags));
  return views;
}

std::string costs_text(const ScheduleFlags& flags) {
  const Costs& costs = flags.costs;
  return concat("times of ", flags.same_work ? "a rank's stages together" : "a stage", ": forward ",
                join(costs.forward, ","), ", input gradient ", join(costs.input_grad, ","),
                ", weight gradient ", join(costs.weight_grad, ","), "; a message ",
                join(costs.message, ","));
}

}  // namespace

int run_schedule(const std::vector<std::string>& arguments) {
  CLI::App app("Shows pipeline schedules, verified and simulated, without starting any process.",
               "tessera schedule");
  ScheduleFlags flags;
  add_schedule_flags(app, flags);
  if (const auto done = parse(app, arguments)) return *done;

  check_together(flags);
  if (flags.units) return show_units(flags);
  if (flags.from_trace) return show_recorded(flags);
  const std::vector<ScheduleView> views = views_of(flags);
  std::vector<Timeline> timelines;
  for (const ScheduleView& view : views) timelines.emplace_back(view.schedule, view.simulation);
  const std::string title =
      views.size() > 1 ? "Pipeline schedules" : concat(views[0].schedule.name(), " pipeline");
  const std::vector<ScheduleFile> files =
      make_files(flags, {timelines, title, costs_text(flags), views[0].schedule});
  write_files(files);
  const bool compare = !flags.compare.empty();
  if (flags.json) write_schedule_json(views, compare, data_out());
  if (flags.uses_stdout()) return kOk;

  write_schedule_text(views, timelines, {{terminal_width(), color_mode(flags.color)}, compare},
                      std::cout);
  list_files(files);
  if (flags.is_example()) {
    std::cout
        << "\nThis is an example. Your own: tessera schedule --kind zbv --pp N --microbatches N\n"
           "`tessera schedule --help` lists all flags; --html FILE writes a page to explore.\n";
  }
  return kOk;
}

}  // namespace tessera::cli

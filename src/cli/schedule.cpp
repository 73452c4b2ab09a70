// `tessera schedule`: pipeline schedules, verified, simulated and drawn, without any process.
#include "cli/schedule.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <sstream>

#include "cli/files.h"
#include "cli/parse.h"
#include "cli/schedule_flags.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/draw/timeline_page.h"
#include "tessera/draw/timeline_svg.h"
#include "tessera/draw/timeline_trace.h"
#include "tessera/schedule/csv.h"
#include "tessera/schedule/search.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLargestTable = 1 << 22;    // Stages × microbatches; some hundred megabytes.
constexpr int64_t kLargestSearch = 1 << 17;   // The same; some ten seconds.
constexpr int64_t kLargestPicture = 20'000;   // Actions; a browser stays quick.
constexpr int64_t kLargestTrace = 1'000'000;  // Actions; some hundred megabytes.
constexpr size_t kLargestCsv = 256U << 20;    // Bytes.

void check_size(const ScheduleShape& shape, int64_t most) {
  const int64_t size =
      checked_multiply(shape.num_stages, shape.microbatches, "stages × microbatches");
  TSR_CHECK(size <= most, "a table of ", shape.num_stages, " stages and ", shape.microbatches,
            " microbatches is too large to be ", most == kLargestSearch ? "searched" : "shown",
            "; their product may be at most ", most);
}

bool holds_messages(std::string_view csv) {
  return std::ranges::any_of(std::array{"SEND", "RECV", "SHARD", "REDUCE"}, [&](const char* word) {
    return csv.find(word) != std::string_view::npos;
  });
}

Schedule parse_table(const std::string& text, const std::string& path, SendMode sends) {
  const CsvFormat format = holds_messages(text) ? CsvFormat::kComms : CsvFormat::kComputeOnly;
  return parse_schedule_csv(text, path, {.format = format, .shape = {}, .sends = sends});
}

// What `verify` has against it; "" where it has nothing.
std::string refusal_of(const Schedule& schedule) {
  try {
    verify(schedule);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

// A table whose sends cannot wait for their receives may still run where they are posted.
Schedule read_table(const std::string& path) {
  const std::string text = read_file(path, kLargestCsv);
  if (text.size() > kLargestCsv) throw DataError(concat(path, " is larger than 256 MiB"));
  Schedule waiting = parse_table(text, path, SendMode::kRendezvous);
  check_size(waiting.shape(), kLargestTable);
  const std::string refusal = refusal_of(waiting);
  if (refusal.empty()) return waiting;
  Schedule posted = parse_table(text, path, SendMode::kPosted);
  if (refusal_of(posted).empty()) return posted;
  throw DataError(concat(path, ": ", refusal));
}

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

// How far a search got.
std::string origin_of(const SearchResult& found) {
  const double span = longest_span(found.simulation);
  const std::string known = !found.family ? "no known family fits"
                                          : concat(found.improved ? "better than " : "as good as ",
                                                   to_string(*found.family));
  return concat("found by search: ", known, "; a rank takes at most ", span,
                span > found.bound ? concat(", no schedule less than ", found.bound)
                                   : ", the least that is possible");
}

ScheduleView view_of(SearchResult found) {
  std::string origin = origin_of(found);
  const Verification verification = verify(found.schedule);
  return {std::move(found.schedule), verification, std::move(found.simulation), std::move(origin)};
}

ScheduleView view_of_kind(const std::string& word, const ScheduleFlags& flags) {
  const ScheduleKind kind = parse_schedule_kind(word);
  // Among several tables, those of kinds with one stage a rank have one; auto has what is asked.
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
    check_size(shape, kLargestTable);
    return view_of(make_schedule(config, costs, flags.memory_limit), costs);
  }
  const SearchRequest request = search_request(config, costs, flags.memory_limit);
  check_size(shape, kLargestSearch);
  return view_of(search(request));
}

// The sizes of a user's table are those of the kinds that it is compared with.
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
    Schedule table = read_table(*flags.csv_in);
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

void check_drawable(std::span<const ScheduleView> views, const char* flag, int64_t most) {
  int64_t actions = 0;
  for (const ScheduleView& view : views) actions += view.verification.num_actions;
  TSR_CHECK(actions <= most, with_thousands(actions), " actions are too many for ", flag,
            ", which shows up to ", with_thousands(most), "; choose fewer microbatches or ranks");
}

struct Result {
  std::string_view what;
  std::string path;
  std::string text;
};

// All are made before any is written, so that a refusal leaves no file.
std::vector<Result> results_of(const ScheduleFlags& flags, std::span<const ScheduleView> views,
                               std::span<const Timeline> timelines) {
  std::vector<Result> results;
  const std::string title =
      views.size() > 1 ? "Pipeline schedules" : concat(views[0].schedule.name(), " pipeline");
  if (flags.svg) {
    check_drawable(views, "--svg", kLargestPicture);
    results.push_back({"picture", *flags.svg, draw_svg(timelines, title, costs_text(flags))});
  }
  if (flags.html) {
    check_drawable(views, "--html", kLargestPicture);
    results.push_back({"page", *flags.html, draw_page(timelines, title, costs_text(flags))});
  }
  if (flags.trace) {
    check_drawable(views, "--trace", kLargestTrace);
    std::ostringstream trace;
    write_timeline_trace(timelines, trace);
    results.push_back({"trace (ui.perfetto.dev opens it)", *flags.trace, std::move(trace).str()});
  }
  if (flags.csv) {
    const Schedule& table = views[0].schedule;
    const auto format = table.is_compute_only() ? CsvFormat::kComputeOnly : CsvFormat::kComms;
    results.push_back({"table", *flags.csv, to_csv(table, format)});
  }
  return results;
}

void write_results(const std::vector<Result>& results) {
  for (const Result& result : results) {
    if (result.path == "-") {
      std::cout << result.text;
    } else {
      write_file(result.path, result.text);
    }
  }
}

}  // namespace

int run_schedule(const std::vector<std::string>& arguments) {
  CLI::App app("Shows pipeline schedules, verified and simulated, without starting any process.",
               "tessera schedule");
  ScheduleFlags flags;
  add_schedule_flags(app, flags);
  if (const auto done = parse(app, arguments)) return *done;

  check_together(flags);
  const std::vector<ScheduleView> views = views_of(flags);
  std::vector<Timeline> timelines;
  for (const ScheduleView& view : views) timelines.emplace_back(view.schedule, view.simulation);
  const std::vector<Result> results = results_of(flags, views, timelines);
  write_results(results);
  const bool compare = !flags.compare.empty();
  if (flags.json) write_schedule_json(views, compare, std::cout);
  if (flags.uses_stdout()) return kOk;

  write_schedule_text(views, timelines, {{terminal_width(), color_mode(flags.color)}, compare},
                      std::cout);
  for (const Result& result : results) std::cout << result.what << ": " << result.path << "\n";
  if (flags.is_example()) {
    std::cout
        << "\nThis is an example. Your own: tessera schedule --kind zbv --pp N --microbatches N\n"
           "`tessera schedule --help` lists all flags; --html FILE writes a page to explore.\n";
  }
  return kOk;
}

}  // namespace tessera::cli

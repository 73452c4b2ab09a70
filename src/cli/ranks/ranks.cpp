// `tessera ranks`: shows how ranks form groups, without starting any process.
#include "cli/ranks/view.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cli/called_as.h"
#include "cli/files.h"
#include "cli/parse.h"
#include "cli/ranks/flags.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/draw/layout_page.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLargestWorld = 1 << 24;  // Ranks; a list of all of them takes 128 MB.
constexpr int64_t kLargestPicture = 1024;   // Ranks; keeps browsers fast and cells readable.

DialectQuery query_of(const RanksFlags& flags) {
  TSR_CHECK(flags.is_example() || flags.world,
            "--world is missing: give the number of ranks, e.g. --world 64");
  const Dialect& dialect = find_dialect(flags.dialect);
  DialectQuery query{.world = flags.world.value_or(64),
                     .gpus_per_node = flags.gpus_per_node.value_or(8),
                     .flags = flags.is_example() ? dialect.example : flags.layout};
  TSR_CHECK(query.world <= kLargestWorld, "--world ", query.world,
            " is too large to be shown; choose at most ", kLargestWorld);
  TSR_CHECK(query.gpus_per_node > 0, "--gpus-per-node ", query.gpus_per_node,
            " is not positive; a node has at least 1 GPU");
  return query;
}

int64_t cp_of(const RanksView& view) {
  for (const auto& [label, shown, axis] : labelled_axes(view)) {
    if (label == "cp") return shown->layout.axis(axis).size();
  }
  return 1;
}

RanksView view_of(const RanksFlags& flags, const DialectQuery& query) {
  RanksView view{.layout = plan_in(find_dialect(flags.dialect), query),
                 .machine = {query.gpus_per_node, flags.nodes_per_rack}};
  TSR_CHECK(!flags.rank || (0 <= *flags.rank && *flags.rank < query.world), "--rank ",
            flags.rank.value_or(0), " is outside the world; choose 0 to ", query.world - 1);
  if (flags.rank) view.rank = GlobalRank{*flags.rank};
  view.sequence = flags.split(cp_of(view));
  return view;
}

std::string svg_of(const RanksView& view) {
  TSR_CHECK(view.world() <= kLargestPicture, "a picture of ", view.world(),
            " ranks cannot be read; --svg draws worlds of up to ", kLargestPicture);
  std::vector<std::string> lines;
  for (const auto& [name, text] : view.layout.lines()) {
    lines.push_back(lines.empty() ? text : concat(name, " ", text));
  }
  const RankGrid grid = make_rank_grid(kinds_to_draw(view), view.machine.gpus_per_node, view.rank);
  return draw_svg(grid, headline(view), join(lines, "; "));
}

// Makes all pictures before it writes the first, so that an error leaves no file.
void write_pictures(const RanksView& view, const RanksFlags& flags) {
  const std::optional<TrainingStep> step = flags.step();
  std::string svg;
  std::string page;
  if (flags.svg) svg = svg_of(view);
  if (flags.html)
    page = draw_page({headline(view), view.layout, view.machine, step, view.sequence});
  if (flags.svg) write_file(*flags.svg, svg);
  if (flags.html) write_file(*flags.html, page);
}

int run_translation(const RanksFlags& flags, const DialectQuery& query) {
  const Dialect& to = find_dialect(*flags.to);
  const RanksView view = view_of(flags, query);
  const TranslationView answer{view.layout, query.flags, to,
                               translate(view.layout, to, query.gpus_per_node)};
  if (flags.json) {
    write_translation_json(answer, data_out());
  } else {
    write_translation_text(answer, std::cout);
  }
  return answer.translation.flags ? kOk : kFailed;
}

void write_remarks(const RanksFlags& flags) {
  if (flags.svg) std::cout << "\npicture: " << visible(*flags.svg) << "\n";
  if (flags.html) std::cout << "\npage: " << visible(*flags.html) << "\n";
  if (!flags.is_example()) return;
  const Dialect& dialect = find_dialect(flags.dialect);
  std::cout << "\nThis is an example. Your own layout:\n  " << called_as() << " ranks "
            << (dialect.name == kDefaultDialect ? "" : concat("--dialect ", dialect.name, " "))
            << "--world 64 " << to_string(dialect.example)
            << "\n--svg FILE draws it, --html FILE explains it, --help lists all flags.\n";
}

// Whether the first layout has the same groups. Groups of different experts are always drawn.
bool repeats_first(const RanksView& view, const ShownLayout& shown, const std::string& axis) {
  const ShownLayout& first = view.layout.layouts.front();
  if (&shown == &first || axis == "ep") return false;
  return std::ranges::any_of(first.axes, [&](const ShownLayout::ShownAxis& other) {
    return std::ranges::equal(first.layout.axis(other.axis).extents(),
                              shown.layout.axis(axis).extents());
  });
}

}  // namespace

std::vector<LabelledAxis> labelled_axes(const RanksView& view) {
  std::vector<LabelledAxis> axes;
  for (const ShownLayout& shown : view.layout.layouts) {
    for (const auto& [label, axis] : shown.axes) {
      if (std::ranges::find(axes, label, &LabelledAxis::label) == axes.end()) {
        axes.push_back({label, &shown, axis});
      }
    }
  }
  return axes;
}

std::vector<GroupSpec> kinds_to_draw(const RanksView& view) {
  std::vector<GroupSpec> chosen;
  const std::vector<LabelledAxis> axes = labelled_axes(view);
  for (const auto& [label, shown, axis] : axes) {
    if (shown->layout.axis(axis).size() == 1 || repeats_first(view, *shown, axis)) continue;
    chosen.push_back({.name = label, .label = label, .groups = {shown->layout, {axis}}});
  }
  const auto& [label, shown, axis] = axes.front();
  if (chosen.empty()) chosen.push_back({label, label, {shown->layout, {axis}}});  // One rank.
  return chosen;
}

int run_ranks(const std::vector<std::string>& arguments) {
  CLI::App app("Shows how ranks form groups, without starting any process.", "tessera ranks");
  RanksFlags flags;
  flags.dialect = dialect_of(arguments);
  add_ranks_flags(app, flags);
  if (const auto done = parse(app, arguments)) return *done;

  check_together(flags);
  const DialectQuery query = query_of(flags);
  if (flags.to) return run_translation(flags, query);
  const RanksView view = view_of(flags, query);
  write_pictures(view, flags);
  if (flags.json) {
    write_ranks_json(view, data_out());
    return kOk;
  }
  write_ranks_text(view, {terminal_width(), color_mode(flags.color)}, std::cout);
  write_remarks(flags);
  return kOk;
}

}  // namespace tessera::cli

#include <algorithm>

#include "cli/schedule/view.h"
#include "cli/table.h"
#include "tessera/base/number_text.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/draw/timeline_terminal.h"

namespace tessera::cli {
namespace {

constexpr int64_t kMostRanks = 64;  // That a table lists.

std::string share_text(double part, double whole) {
  return percent(whole > 0 ? part / whole : 0);
}

std::string rank_table(const ScheduleView& view) {
  Table table;
  for (const char* title : {"rank", "stages", "busy", "bubble", "", "gap", "peak activations"}) {
    table.add_column(title, std::string_view(title) == "stages" ? Align::kLeft : Align::kRight);
  }
  for (int64_t rank = 0; rank < view.schedule.pp(); ++rank) {
    const RankTimes& times = view.simulation.ranks[static_cast<size_t>(rank)];
    table.add_row({concat(rank), join(view.schedule.stages_of(GroupRank{rank}), " "),
                   concat(times.busy), concat(times.bubble),
                   share_text(times.bubble, view.simulation.makespan), concat(times.gap),
                   concat(times.peak_activations)});
  }
  return table.to_string();
}

// A summary, if there are too many ranks for a table.
std::string rank_extremes(const ScheduleView& view) {
  const auto& ranks = view.simulation.ranks;
  const auto [least, most] = std::ranges::minmax(ranks, {}, &RankTimes::bubble);
  const auto [fewest, largest] = std::ranges::minmax(ranks, {}, &RankTimes::peak_activations);
  const double makespan = view.simulation.makespan;
  return concat("bubble of a rank: ", share_text(least.bubble, makespan), " to ",
                share_text(most.bubble, makespan),
                "; peak activations of a rank: ", fewest.peak_activations, " to ",
                largest.peak_activations, "\n");
}

std::string comparison(std::span<const ScheduleView> views, std::span<const Timeline> timelines) {
  Table table;
  table.add_column("schedule");
  for (const char* title : {"stages per rank", "makespan", "bubble", "peak activations"}) {
    table.add_column(title, Align::kRight);
  }
  for (size_t i = 0; i < views.size(); ++i) {
    table.add_row({views[i].schedule.name(), concat(views[i].stages_per_rank()),
                   concat(timelines[i].makespan()), percent(timelines[i].bubble()),
                   concat(timelines[i].peak_activations())});
  }
  return table.to_string();
}

bool work_differs(std::span<const ScheduleView> views) {
  return std::ranges::any_of(views, [&](const ScheduleView& view) {
    return view.simulation.ranks[0].busy != views[0].simulation.ranks[0].busy;
  });
}

bool sizes_differ(std::span<const ScheduleView> views) {
  return !work_differs(views) && std::ranges::any_of(views, [&](const ScheduleView& view) {
    return view.stages_per_rank() != views[0].stages_per_rank();
  });
}

// Peaks count activations of a stage. These have one unit: a micro-batch in all layers of a rank.
std::string peaks_of_whole_ranks(std::span<const ScheduleView> views,
                                 std::span<const Timeline> timelines) {
  std::vector<std::string> peaks;
  for (size_t i = 0; i < views.size(); ++i) {
    const auto peak = static_cast<double>(timelines[i].peak_activations());
    peaks.push_back(concat(views[i].schedule.name(), " ",
                           peak / static_cast<double>(views[i].stages_per_rank())));
  }
  return concat("Stages differ in size. Peaks in activations of all layers of a rank: ",
                join(peaks, ", "), "\n");
}

}  // namespace

void write_schedule_text(std::span<const ScheduleView> views, std::span<const Timeline> timelines,
                         const ScheduleTextOptions& options, std::ostream& out) {
  if (fits_terminal(timelines, options.terminal)) {
    out << draw_terminal(timelines, options.terminal) << "\n";
  } else {
    for (const Timeline& timeline : timelines) out << heading(timeline, options.terminal);
    out << "(too many ranks or actions for a timeline of " << options.terminal.width
        << " characters)\n\n";
  }
  if (options.compare) {
    out << comparison(views, timelines) << "\n";
    if (sizes_differ(views)) out << peaks_of_whole_ranks(views, timelines) << "\n";
  } else {
    const bool few = views[0].schedule.pp() <= kMostRanks;
    out << (few ? rank_table(views[0]) : rank_extremes(views[0])) << "\n";
  }
  for (const ScheduleView& view : views) {
    if (!view.origin.empty()) out << visible(view.schedule.name()) << ", " << view.origin << "\n";
    out << "verified" << (options.compare ? concat(" ", visible(view.schedule.name())) : "") << ": "
        << view.verification.to_string() << "\n";
  }
  if (work_differs(views)) {
    out << "Times are per stage, so ranks with more stages do more work; --same-work evens it.\n";
  }
}

}  // namespace tessera::cli

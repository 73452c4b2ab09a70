#include <algorithm>

#include "cli/ranks.h"
#include "cli/table.h"
#include "tessera/base/text.h"
#include "tessera/draw/rank_text.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLargestGrid = 512;     // Ranks that a terminal can show.
constexpr int64_t kLargestWalk = 65'536;  // Ranks up to which every group is looked at.
constexpr int64_t kFirstGroups = 3;
constexpr int64_t kPlainColumns = 35;  // Characters left of the members, roughly.
constexpr int64_t kNamedColumns = 80;
constexpr int64_t kCountColumn = 7;      // Not in the table of one rank.
constexpr int64_t kWidthForNames = 110;  // Narrower terminals show the short labels alone.

std::string size_list(const std::vector<std::pair<std::string, int64_t>>& sizes) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : sizes) parts.push_back(concat(name, " ", size));
  return join(parts, " × ");
}

// As many of the first groups as fit into the room, at least one.
std::string first_groups(const GroupFamily& groups, int64_t room) {
  std::string text;
  int64_t shown = 0;
  for (; shown < std::min(kFirstGroups, groups.count()); ++shown) {
    const std::string next =
        concat(shown == 0 ? "" : "  ", "{", short_list(groups.group(shown)), "}");
    if (shown > 0 && static_cast<int64_t>(text.size() + next.size()) > room) break;
    text += next;
  }
  return groups.count() > shown ? text + " …" : text;
}

void write_kinds(const RanksView& view, int64_t width, std::ostream& out) {
  const bool with_names = width >= kWidthForNames;
  const int64_t room = width - (with_names ? kNamedColumns : kPlainColumns);
  Table table;
  table.add_column("axes");
  table.add_column("size", Align::kRight);
  table.add_column("count", Align::kRight);
  table.add_column("nodes", Align::kRight);
  if (with_names) table.add_column("group");
  table.add_column("first members");
  for (const GroupSpec& spec : view.plan.specs()) {
    const GroupFamily& groups = spec.groups;
    const std::string nodes =
        view.world() > kLargestWalk ? "-" : concat(widest_span(groups, view.query.gpus_per_node));
    std::vector<std::string> row{spec.label, concat(groups.size()), concat(groups.count()), nodes};
    if (with_names) row.push_back(spec.name);
    row.push_back(first_groups(groups, room));
    table.add_row(std::move(row));
  }
  out << table.to_string();
}

void write_rank(const RanksView& view, GlobalRank rank, int64_t width, std::ostream& out) {
  const bool with_names = width >= kWidthForNames;
  const int64_t room = width - (with_names ? kNamedColumns : kPlainColumns) + kCountColumn;
  const auto on = [&](const Layout& layout, const char* axis) {
    return concat(layout.coordinate(rank, axis));
  };
  const Layout& decoder = view.decoder();
  const Layout& expert = view.expert();
  out << "rank " << rank << ": node " << rank.value / view.query.gpus_per_node << ", GPU "
      << rank.value % view.query.gpus_per_node << "; tp " << on(decoder, "tp") << ", cp "
      << on(decoder, "cp") << ", dp " << on(decoder, "dp") << ", pp " << on(decoder, "pp")
      << "; experts etp " << on(expert, "tp") << ", ep " << on(expert, "ep") << ", edp "
      << on(expert, "dp") << "\n\n";
  Table table;
  table.add_column("axes");
  table.add_column("size", Align::kRight);
  table.add_column("nodes", Align::kRight);
  if (with_names) table.add_column("group");
  table.add_column("members");
  for (const GroupSpec& spec : view.plan.specs()) {
    const auto group = spec.groups.group_of(rank);
    std::vector<std::string> row{spec.label, "-", "-"};
    if (group) row[1] = concat(group->size());
    if (group) row[2] = concat(nodes_of(*group, view.query.gpus_per_node));
    if (with_names) row.push_back(spec.name);
    row.push_back(group ? short_list(*group, static_cast<size_t>(room)) : "not a member");
    table.add_row(std::move(row));
  }
  out << table.to_string();
}

}  // namespace

std::string headline(const RanksView& view) {
  const int64_t per_node = view.query.gpus_per_node;
  const int64_t nodes = view.world() / per_node + (view.world() % per_node != 0);
  return concat(with_thousands(view.world()), view.world() == 1 ? " rank on " : " ranks on ",
                with_thousands(nodes), nodes == 1 ? " node of " : " nodes of ", per_node,
                per_node == 1 ? " GPU" : " GPUs");
}

SizeLines size_lines(const RanksView& view) {
  const Layout& decoder = view.decoder();
  const Layout& expert = view.expert();
  const auto size = [](const Layout& layout, const char* axis) { return layout.axis(axis).size(); };
  return {.decoder = size_list({{"tp", size(decoder, "tp")},
                                {"cp", size(decoder, "cp")},
                                {"dp", size(decoder, "dp")},
                                {"pp", size(decoder, "pp")}}),
          .experts = size_list({{"etp", size(expert, "tp")},
                                {"ep", size(expert, "ep")},
                                {"edp", size(expert, "dp")},
                                {"pp", size(expert, "pp")}}),
          .order = concat(view.query.config.order, ", fastest first")};
}

void write_ranks_text(const RanksView& view, const TerminalOptions& terminal, std::ostream& out) {
  const SizeLines lines = size_lines(view);
  out << bold(headline(view), terminal.color) << "\ndecoder  " << lines.decoder << "\nexperts  "
      << lines.experts << "\norder    " << lines.order << "\n\n";
  if (view.world() <= kLargestGrid) {
    out << draw_terminal(
        make_rank_grid(kinds_to_draw(view), view.query.gpus_per_node, view.query.rank), terminal);
  } else {
    out << "(the grid is drawn for up to " << kLargestGrid << " ranks)\n\n";
  }
  if (view.query.rank) {
    write_rank(view, *view.query.rank, terminal.width, out);
  } else {
    write_kinds(view, terminal.width, out);
  }
}

}  // namespace tessera::cli

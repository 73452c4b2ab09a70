#include <algorithm>

#include "cli/ranks/view.h"
#include "cli/table.h"
#include "tessera/base/text.h"
#include "tessera/topology/rank_text.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLargestGrid = 512;     // Ranks that fit on a terminal.
constexpr int64_t kLargestWalk = 65'536;  // Up to this many ranks, every group is visited.
constexpr int64_t kFirstGroups = 3;
constexpr int64_t kCountColumn = 7;                       // Absent from the table of one rank.
constexpr int64_t kNumberColumns = 6 + kCountColumn + 7;  // Sizes, counts and nodes, approximately.
constexpr int64_t kWidthForNames = 110;  // Narrower terminals show only the short labels.

// As many of the first groups as fit, at least one.
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

/// The layout of the table of kinds.
struct Columns {
  bool names = false;  // Whether there is a column for the dialect's names.
  int64_t room = 0;    // For the members.
};

// Shows the dialect's names if there is room and if they differ from the labels.
Columns columns_of(const RanksView& view, int64_t width) {
  size_t label = 4;
  size_t name = 0;
  bool names = false;
  for (const GroupSpec& spec : view.plan().specs()) {
    label = std::max(label, spec.label.size() + 2);
    name = std::max(name, spec.name.size() + 2);
    names |= spec.name != spec.label;
  }
  names &= width >= kWidthForNames;
  return {names, width - kNumberColumns - static_cast<int64_t>(label + (names ? name : 0))};
}

void write_kinds(const RanksView& view, int64_t width, std::ostream& out) {
  const auto [with_names, room] = columns_of(view, width);
  Table table;
  table.add_column("axes");
  table.add_column("size", Align::kRight);
  table.add_column("count", Align::kRight);
  table.add_column("nodes", Align::kRight);
  if (with_names) table.add_column("group");
  table.add_column("first members");
  for (const GroupSpec& spec : view.plan().specs()) {
    const GroupFamily& groups = spec.groups;
    const std::string nodes =
        view.world() > kLargestWalk ? "-" : concat(widest_span(groups, view.machine.gpus_per_node));
    std::vector<std::string> row{spec.label, concat(groups.size()), concat(groups.count()), nodes};
    if (with_names) row.push_back(spec.name);
    row.push_back(first_groups(groups, room));
    table.add_row(std::move(row));
  }
  out << table.to_string();
}

// "rank 37: node 4, GPU 5; tp 5, cp 0, dp 0, pp 1; experts etp 5, ep 0, edp 0", on several lines if
// it is too long for one.
std::string place_of(const RanksView& view, GlobalRank rank, int64_t width) {
  const int64_t per_node = view.machine.gpus_per_node;
  const std::vector<LabelledAxis> axes = labelled_axes(view);
  std::vector<std::string> parts{
      concat("rank ", rank, ": node ", rank.value / per_node, ", GPU ", rank.value % per_node)};
  for (const ShownLayout& layout : view.layout.layouts) {
    std::vector<std::string> coordinates;
    for (const auto& [label, shown, axis] : axes) {
      if (shown != &layout) continue;
      coordinates.push_back(concat(label, " ", layout.layout.coordinate(rank, axis)));
    }
    const std::string title = parts.size() == 1 ? "" : layout.title + " ";
    parts.push_back(title + join(coordinates, ", "));
  }
  const std::string line = join(parts, "; ");
  return static_cast<int64_t>(line.size()) <= width ? line : join(parts, ";\n  ");
}

void write_rank(const RanksView& view, GlobalRank rank, int64_t width, std::ostream& out) {
  const Columns columns = columns_of(view, width);
  const bool with_names = columns.names;
  const auto room = static_cast<size_t>(std::max<int64_t>(0, columns.room + kCountColumn));
  out << place_of(view, rank, width) << "\n\n";
  Table table;
  table.add_column("axes");
  table.add_column("size", Align::kRight);
  table.add_column("nodes", Align::kRight);
  if (with_names) table.add_column("group");
  table.add_column("members");
  for (const GroupSpec& spec : view.plan().specs()) {
    const auto group = spec.groups.group_of(rank);
    std::vector<std::string> row{spec.label, "-", "-"};
    if (group) row[1] = concat(group->size());
    if (group) row[2] = concat(nodes_of(*group, view.machine.gpus_per_node));
    if (with_names) row.push_back(spec.name);
    row.push_back(group ? short_list(*group, room) : "not a member");
    table.add_row(std::move(row));
  }
  out << table.to_string();
}

}  // namespace

std::string headline(const RanksView& view) {
  const int64_t per_node = view.machine.gpus_per_node;
  const int64_t nodes = view.world() / per_node + (view.world() % per_node != 0);
  return concat(with_thousands(view.world()), view.world() == 1 ? " rank on " : " ranks on ",
                with_thousands(nodes), nodes == 1 ? " node of " : " nodes of ", per_node,
                per_node == 1 ? " GPU" : " GPUs");
}

void write_ranks_text(const RanksView& view, const TerminalOptions& terminal, std::ostream& out) {
  out << bold(headline(view), terminal.color) << "\n";
  const auto lines = view.layout.lines();
  size_t longest = 0;
  for (const auto& [name, text] : lines) longest = std::max(longest, name.size());
  for (auto [name, text] : lines) {
    name.resize(longest + 2, ' ');
    out << name << text << "\n";
  }
  out << "\n";
  if (view.world() <= kLargestGrid) {
    out << draw_terminal(make_rank_grid(kinds_to_draw(view), view.machine.gpus_per_node, view.rank),
                         terminal);
  } else {
    out << "(the grid is drawn for up to " << kLargestGrid << " ranks)\n\n";
  }
  if (view.sequence) out << draw_terminal(*view.sequence, terminal);
  if (view.rank) {
    write_rank(view, *view.rank, terminal.width, out);
  } else {
    write_kinds(view, terminal.width, out);
  }
}

}  // namespace tessera::cli

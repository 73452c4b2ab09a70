#include "tessera/draw/layout_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/check.h"
#include "tessera/draw/internal/markup.h"
#include "tessera/draw/internal/page_parts.h"

namespace tessera {

using namespace draw::detail;

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostDocuments = 64;  // Whose ends the page marks.

/// Kinds of group that have identical groups.
struct PageKind {
  std::vector<const GroupSpec*> specs;
  std::vector<int64_t> group_of;  // By rank; -1 for ranks in no group.
  std::vector<Role> roles;        // In the order of Role.

  /// The displayed name: that of the kind with the first role.
  std::string label;
};

std::vector<int64_t> groups_by_rank(const GroupSpec& spec, int64_t world) {
  std::vector<int64_t> group_of;
  for (GlobalRank rank{0}; rank.value < world; ++rank.value) {
    group_of.push_back(spec.groups.index_of(rank).value_or(-1));
  }
  return group_of;
}

void add_roles(PageKind& kind, const DialectPlan& layout) {
  for (const GroupSpec* spec : kind.specs) {
    for (const auto& [role, name] : layout.roles) {
      if (name != spec->name) continue;
      if (kind.roles.empty() || role < std::ranges::min(kind.roles)) kind.label = spec->label;
      kind.roles.push_back(role);
    }
  }
  std::ranges::sort(kind.roles);
}

std::vector<PageKind> kinds_of(const DialectPlan& layout) {
  std::vector<PageKind> kinds;
  for (const GroupSpec& spec : layout.plan.specs()) {
    if (spec.groups.size() == 1) continue;
    std::vector<int64_t> group_of = groups_by_rank(spec, layout.plan.world());
    const auto same = std::ranges::find(kinds, group_of, &PageKind::group_of);
    if (same != kinds.end()) {
      same->specs.push_back(&spec);
    } else {
      kinds.push_back({{&spec}, std::move(group_of), {}, spec.label});
    }
  }
  for (PageKind& kind : kinds) add_roles(kind, layout);
  std::ranges::stable_sort(kinds, [](const PageKind& a, const PageKind& b) {
    if (a.roles.empty() || b.roles.empty()) return !a.roles.empty() && b.roles.empty();
    return a.roles.front() < b.roles.front();
  });
  return kinds;
}

Json to_json(const PerLink& per_link) {
  return {{to_string(Link::kInNode), per_link.in_node},
          {to_string(Link::kAcrossNodes), per_link.across_nodes},
          {to_string(Link::kAcrossRacks), per_link.across_racks}};
}

// The total traffic of the kind.
Json traffic_json(const PageKind& kind, const std::vector<Traffic>& all, const Machine& machine) {
  std::vector<std::string> what;
  std::vector<std::string> formulas;
  double bytes = 0;
  PerLink sum;
  for (const Traffic& traffic : all) {
    const auto spec = std::ranges::find(kind.specs, traffic.name, &GroupSpec::name);
    if (spec == kind.specs.end()) continue;
    const PerLink part = bytes_per_link((*spec)->groups, traffic, machine);
    what.push_back(traffic.what);
    formulas.push_back(traffic.formula);
    bytes += traffic.bytes;
    sum.in_node += part.in_node;
    sum.across_nodes += part.across_nodes;
    sum.across_racks += part.across_racks;
  }
  if (what.empty()) return nullptr;
  return {{"what", join(what, "; ")},
          {"formula", join(formulas, " + ")},
          {"bytes", bytes},
          {"per_link", to_json(sum)}};
}

bool is_main(const PageKind& kind) {
  return !kind.roles.empty() && kind.roles.front() <= Role::kExpert;
}

Json kind_json(const PageKind& kind, const LayoutPage& page, const std::vector<Traffic>& traffic) {
  const GroupFamily& groups = kind.specs.front()->groups;
  std::vector<std::string> names;
  std::vector<std::string> explanations;
  std::string often;
  for (const GroupSpec* spec : kind.specs) names.push_back(spec->name);
  for (const Role role : kind.roles) {
    explanations.emplace_back(explanation(role));
    if (often.empty()) often = how_often(role);
  }
  return {{"label", kind.label},
          {"names", names},
          {"main", is_main(kind)},
          {"has_role", !kind.roles.empty()},
          {"size", groups.size()},
          {"count", groups.count()},
          {"group_of", kind.group_of},
          {"explanation", join(explanations, " ")},
          {"often", often},
          {"groups_per_link", to_json(groups_per_link(groups, page.machine))},
          {"traffic", traffic_json(kind, traffic, page.machine)}};
}

Json axes_json(const DialectPlan& layout) {
  Json axes = Json::array();
  std::vector<std::string> seen;
  for (const ShownLayout& shown : layout.layouts) {
    for (const auto& [label, axis] : shown.axes) {
      if (std::ranges::find(seen, label) != seen.end()) continue;
      seen.push_back(label);
      std::vector<int64_t> coordinates;
      for (GlobalRank rank{0}; rank.value < layout.plan.world(); ++rank.value) {
        coordinates.push_back(shown.layout.coordinate(rank, axis));
      }
      axes.push_back({{"label", label}, {"coordinate", coordinates}});
    }
  }
  return axes;
}

Json symbols_json(const DialectPlan& layout, const TrainingStep& step) {
  Json symbols = Json::array();
  for (const Symbol& symbol : traffic_symbols(layout, step)) {
    symbols.push_back({{"letter", symbol.letter},
                       {"meaning", symbol.meaning},
                       {"value", symbol.value},
                       {"unit", symbol.is_bytes ? "bytes" : ""}});
  }
  return symbols;
}

Json sequence_json(const SequenceSplit& split) {
  const int64_t shown = split.shown();
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < std::min(split.layout.ranks(), kMostSplitRows); ++rank) {
    Json runs = Json::array();
    for (const Span& run : split.layout.runs(rank)) {
      if (run.begin < shown) runs.push_back({run.begin, std::min(run.end, shown)});
    }
    ranks.push_back({{"runs", runs}, {"pairs", split.pairs[static_cast<size_t>(rank)]}});
  }
  return {{"name", split.name},
          {"length", split.layout.length()},
          {"shown", shown},
          {"cp", split.layout.ranks()},
          {"documents",
           split.documents.size() > kMostDocuments ? Json::array() : Json(split.documents)},
          {"num_documents", split.documents.size()},
          {"ranks", ranks},
          {"balance", balance_text(split)}};
}

}  // namespace

std::string page_json(const LayoutPage& page) {
  const DialectPlan& layout = page.layout;
  const std::vector<Traffic> traffic =
      page.step ? traffic_of(layout, *page.step) : std::vector<Traffic>{};
  Json json{{"dialect", layout.dialect},
            {"world", layout.plan.world()},
            {"gpus_per_node", page.machine.gpus_per_node},
            {"nodes_per_rack", nullptr},
            {"lines", Json::array()},
            {"axes", axes_json(layout)},
            {"kinds", Json::array()},
            {"step", page.step.has_value()},
            {"sequence", nullptr}};
  if (page.machine.nodes_per_rack) json["nodes_per_rack"] = *page.machine.nodes_per_rack;
  for (const auto& [name, text] : layout.lines()) json["lines"].push_back({name, text});
  for (const PageKind& kind : kinds_of(layout)) {
    json["kinds"].push_back(kind_json(kind, page, traffic));
  }
  if (page.sequence) json["sequence"] = sequence_json(*page.sequence);
  if (page.step) {
    json["symbols"] = symbols_json(layout, *page.step);
    json["assumptions"] = traffic_assumptions();
  }
  return page_text(std::move(json));
}

std::string draw_page(const LayoutPage& page) {
  TSR_CHECK(page.layout.plan.world() <= kLargestPage, "a page of ", page.layout.plan.world(),
            " ranks cannot be read; --html explains worlds of up to ", kLargestPage);
  return fill_page(kLayoutPage, page.title, page_json(page));
}

}  // namespace tessera

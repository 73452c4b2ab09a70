#include <array>
#include <charconv>

#include "cli/json_text.h"
#include "cli/ranks/view.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLargestListing = 1024;  // Up to this many ranks, every group is listed.

Json to_json(const RankGroup& group) {
  Json ranks = Json::array();
  for (const GlobalRank rank : group) ranks.push_back(rank.value);
  return ranks;
}

Json to_json(const GroupSpec& spec) {
  const GroupFamily& groups = spec.groups;
  Json json{{"name", spec.name}, {"size", groups.size()}, {"count", groups.count()}};
  if (groups.layout().size() > kLargestListing) return json;
  for (const RankGroup& group : groups.groups()) json["groups"].push_back(to_json(group));
  return json;
}

// One entry per axis of all layouts.
Json per_axis(const RanksView& view, auto value) {
  Json json = Json::object();
  for (const auto& [label, shown, axis] : labelled_axes(view)) {
    json[label] = value(shown->layout, axis);
  }
  return json;
}

// "0,1,2"; avoids a stream, because a group may have a million ranks.
std::string joined(const RankGroup& group) {
  std::string text;
  text.reserve(group.size() * 8);
  std::array<char, 24> digits{};
  for (const GlobalRank rank : group) {
    const auto [end, error] = std::to_chars(digits.begin(), digits.end(), rank.value);
    text.append(digits.data(), end).push_back(',');
  }
  text.pop_back();  // A group has at least one member.
  return text;
}

// The text of an object without its closing brace, so that more members can follow.
std::string open_object(const Json& object) {
  std::string text = json_text(object);
  text.pop_back();
  return text;
}

// Lists positions as [first, last + 1], unless there are too many runs of them.
Json to_json(const SequenceSplit& split) {
  Json json{{"layout", split.name},
            {"length", split.layout.length()},
            {"documents", split.documents},
            {"causal_pairs", split.pairs}};
  if (split.shown() < split.layout.length()) return json;
  for (int64_t rank = 0; rank < split.layout.ranks(); ++rank) {
    Json runs = Json::array();
    for (const Span& run : split.layout.runs(rank)) runs.push_back({run.begin, run.end});
    json["ranks"].push_back(std::move(runs));
  }
  return json;
}

// The groups of one rank may hold a million ranks: writes them without building a document.
void write_rank(const RanksView& view, GlobalRank rank, std::ostream& out) {
  const auto coordinate = per_axis(
      view, [&](const Layout& layout, const auto& axis) { return layout.coordinate(rank, axis); });
  out << open_object({{"rank", rank.value}, {"coordinate", coordinate}}) << ",\"groups\":{";
  const char* between = "";
  for (const auto& [spec, ranks] : view.plan().groups_of(rank)) {
    out << between << json_text(spec->name) << ":[" << joined(ranks) << "]";
    between = ",";
  }
  out << "}}";
}

}  // namespace

void write_ranks_json(const RanksView& view, std::ostream& out) {
  Json json{{"dialect", view.layout.dialect}, {"world", view.world()}};
  for (const Note& note : view.layout.notes) json[note.name] = note.value;
  json["sizes"] = per_axis(
      view, [](const Layout& layout, const auto& axis) { return layout.axis(axis).size(); });
  if (view.sequence) json["sequence"] = to_json(*view.sequence);
  for (const GroupSpec& spec : view.plan().specs()) json["kinds"].push_back(to_json(spec));
  out << open_object(json);
  if (view.rank) {
    out << ",\"rank\":";
    write_rank(view, *view.rank, out);
  }
  out << "}\n";
}

}  // namespace tessera::cli

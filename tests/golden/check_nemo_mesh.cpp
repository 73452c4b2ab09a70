// nemo_mesh: NeMo AutoModel's device meshes, flattened axes, MoE meshes and helpers, as all ranks
// together see them in fake worlds.
#include <algorithm>
#include <set>

#include "tessera/base/text.h"
#include "tests/golden/nemo_answers.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

int64_t size_of(const Json& input, const char* name) {
  const Json size = input.value(name, Json());
  return size.is_null() ? 1 : size.get<int64_t>();
}

bool is_covered(const Json& input, int64_t num_ranks) {
  if (!input.value("dp_size", Json()).is_number() || input.at("dp_size") <= 0) return true;
  int64_t product = 1;
  for (const char* name : {"dp_size", "tp_size", "cp_size", "pp_size"}) {
    product *= size_of(input, name);
  }
  return product == num_ranks;
}

// Why ours refuses an input that the peer takes.
const Rule* refusal_rule(const Json& input) {
  for (const char* name :
       {"dp_size", "dp_replicate_size", "tp_size", "pp_size", "cp_size", "ep_size"}) {
    const Json size = input.value(name, Json());
    if (!size.is_null() && !size.is_number_integer()) return &rules::kSizeOfAnotherType;
  }
  for (const char* name : {"tp_size", "pp_size", "cp_size", "ep_size"}) {
    if (const Rule* const rule = rules::of_size(size_of(input, name))) return rule;
  }
  const Json ranks = input.value("ranks", Json());
  const int64_t world = world_of(input);
  const int64_t there = ranks.is_null() ? world : static_cast<int64_t>(ranks.size());
  if (const Rule* const rule = rules::of_rank_list(ranks, world)) return rule;
  const Json world_size = input.value("world_size", Json());
  const bool contradicts = !world_size.is_null() && world_size != there;
  return contradicts || !is_covered(input, there) ? &rules::kWorldIsNotTheProduct : nullptr;
}

// Members of groups in the order of their coordinates `at(rank)`, groups by their first member.
template <class At>
Groups in_the_meshs_order(Groups groups, const At& at) {
  for (auto& group : groups) std::ranges::sort(group, {}, at);
  std::ranges::sort(groups);
  return groups;
}

// The peer's answer for an unsorted list, with its groups in the order of the mesh.
bool take_the_meshs_order(Json& answer) {
  bool changed = false;
  for (const char* name : {"device_mesh", "moe_mesh"}) {
    Json& mesh = answer.at(name);
    if (!mesh.is_object() || mesh.erase("pg_local_ranks") == 0) continue;
    changed = true;
    for (size_t i = 0; i < mesh.at("dims").size(); ++i) {
      Json& groups = mesh["groups"][mesh["dims"][i].get<std::string>()];
      groups = in_the_meshs_order(
          groups, [&](int64_t rank) { return mesh["coords"][rank][i].get<int64_t>(); });
    }
  }
  for (Json& line : answer.at("flattened")) {
    if (line.erase("pg_local_ranks") == 0) continue;
    changed = true;
    line["groups"] = in_the_meshs_order(
        line["groups"], [&](int64_t rank) { return line["coords"][rank].get<int64_t>(); });
    line.erase("coords");
  }
  return changed;
}

// Where a rank stands in the group that it is in.
struct Place {
  const std::vector<int64_t>* group = nullptr;
  int64_t index = 0;
};
std::optional<Place> place_of(int64_t rank, const Groups& groups) {
  for (const auto& group : groups) {
    const auto at = std::ranges::find(group, rank);
    if (at != group.end()) return Place{&group, at - group.begin()};
  }
  return std::nullopt;
}

// Whether the axes of some groups have no rank but `rank` in common.
bool are_apart(const std::vector<Place>& places) {
  std::set<int64_t> seen;
  size_t total = 1;
  for (const Place& place : places) {
    seen.insert(place.group->begin(), place.group->end());
    total += place.group->size() - 1;
  }
  return seen.size() == total;
}

/// Axes side by side, from what the peer answers for each of them alone.
class Composed {
 public:
  Composed(const std::vector<std::string>& names, const Json& lines, int64_t num_ranks)
      : names_(names) {
    for (const std::string& name : names) {
      if (!lines.contains(name) || !lines.at(name).is_object()) return;
      groups_.push_back(lines.at(name).at("groups"));
    }
    for (int64_t rank = 0; rank < num_ranks; ++rank) add(rank);
  }

  /// Nothing where the peer does not know an axis, or two of them step through the same ranks.
  std::optional<Json> answer() const {
    if (groups_.size() < names_.size() || overlap_) return std::nullopt;
    Json groups;
    for (size_t i = 0; i < names_.size(); ++i) groups[names_[i]] = groups_[i];
    return Json{{"dims", names_}, {"shape", shape_}, {"coords", coords_}, {"groups", groups}};
  }

 private:
  void add(int64_t rank) {
    std::vector<Place> places;
    Json coordinate = Json::array();
    Json shape = Json::array();
    for (const Groups& groups : groups_) {
      const std::optional<Place> place = place_of(rank, groups);
      if (!place) return coords_.push_back(nullptr);  // Outside the mesh.
      places.push_back(*place);
      coordinate.push_back(places.back().index);
      shape.push_back(places.back().group->size());
    }
    shape_ = shape;
    coords_.push_back(coordinate);
    overlap_ = overlap_ || !are_apart(places);
  }

  std::vector<std::string> names_;
  std::vector<Groups> groups_;
  Json coords_ = Json::array();
  Json shape_;
  bool overlap_ = false;
};

// What the peer answers for single axes: those of the mesh, flattened ones, and those asked for.
Json axes_alone(const Json& answer) {
  Json lines = Json::object();
  const Json mesh = value_or(answer, "device_mesh", Json::object());
  const Json by_axis = value_or(mesh, "groups", Json::object());
  for (const auto& [axis, groups] : by_axis.items()) lines[axis]["groups"] = groups;
  lines.update(value_or(answer, "flattened", Json::object()));
  lines.update(value_or(answer, "get_flat_mesh", Json::object()));
  return lines;
}

// Replaces the peer's failures to find a sub-mesh whose axes it knows.
bool take_submeshes(Json& answer, int64_t num_ranks) {
  bool changed = false;
  const Json submeshes = answer.value("get_submesh", Json::object());
  for (const auto& [key, submesh] : submeshes.items()) {
    if (submesh != refusal() || key.find('+') == key.npos) continue;
    std::vector<std::string> names;
    for (const std::string_view name : split(key, '+')) names.emplace_back(name);
    const auto composed = Composed(names, axes_alone(answer), num_ranks).answer();
    if (!composed) continue;
    answer["get_submesh"][key] = *composed;
    changed = true;
  }
  return changed;
}

Json moe_mesh_of(const Json& answer) {
  return answer.is_object() ? answer.at("moe_mesh") : answer;
}

Outcome check_mesh(const Json& test_case) {
  const Json& input = test_case.at("input");
  Json expected = errors_as_refusals(test_case.at("expect"));
  Json got = nemo_answer(test_case, true);
  if (expected == refusal()) return {expected, got};
  if (const Rule* const rule = refusal_rule(input)) return {refusal(), got, rule};
  if (expected.contains("moe_mesh_document") && got.is_object()) {
    got["moe_mesh_document"] = moe_mesh_of(nemo_answer(test_case, false));
  }
  const Rule* rule = nullptr;
  if (take_the_meshs_order(expected)) rule = &rules::kGroupsInTheMeshsOrder;
  if (take_submeshes(expected, world_of(input))) rule = &rules::kAxesApart;
  return {expected, got, rule};
}

}  // namespace

Table nemo_mesh_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const Json& test_case : file.at("cases")) list.push_back({"mesh", test_case});
    return list;
  };
  return {"nemo_mesh", {{"mesh", check_mesh}}, cases};
}

}  // namespace tessera::golden

// olmo_mesh: the live meshes, and what every accessor gives for them, as every rank of a fake
// world.
#include <algorithm>
#include <map>
#include <set>

#include "tessera/dialect/olmo/parallel.h"
#include "tessera/plan/olmo/json.h"
#include "tests/golden/golden.h"
#include "tests/golden/olmo_case.h"
#include "tests/golden/plan_json.h"
#include "tests/golden/rules.h"
#include "tests/golden/surroundings.h"

namespace tessera::golden {
namespace {

using Accessor = std::function<DeviceMesh(const DeviceMesh&)>;

const std::map<std::string, Accessor>& accessors() {
  using namespace olmo;
  static const std::map<std::string, Accessor> all{
      {"get_dp_mesh", get_dp_mesh},
      {"get_dp_model_mesh", get_dp_model_mesh},
      {"get_tp_mesh", get_tp_mesh},
      {"get_cp_mesh", get_cp_mesh},
      {"get_pp_mesh", get_pp_mesh},
      {"get_ep_mesh", get_ep_mesh},
      {"get_dp_shard_mesh", get_dp_shard_mesh},
      {"get_dp_replicate_mesh", get_dp_replicate_mesh},
      {"get_pp_stage_mesh", [](const DeviceMesh& mesh) { return get_pp_stage_mesh(mesh); }},
      {"flatten_mesh", [](const DeviceMesh& mesh) { return flatten_mesh(mesh); }},
  };
  return all;
}

// "get_x" of the mesh, or "get_x(get_y)", one after the other.
DeviceMesh sub_mesh(const std::string& name, const DeviceMesh& mesh) {
  const size_t open = std::min(name.find('('), name.size());
  const Accessor accessor = known(accessors(), "accessor", name.substr(0, open));
  if (open == name.size()) return accessor(mesh);
  return accessor(sub_mesh(name.substr(open + 1, name.rfind(')') - open - 1), mesh));
}

Json description_of(const DeviceMesh& mesh) {
  return {{"names", mesh.axis_names()},
          {"shape", mesh.shape()},
          {"info", olmo::get_device_mesh_info(mesh)}};
}

// The number of the list among those seen so far.
int64_t number_in(Json& lists, const Json& list) {
  const auto at = std::ranges::find(lists, list);
  const auto number = at - lists.begin();
  if (at == lists.end()) lists.push_back(list);
  return number;
}

// What one rank sees of a sub-mesh, added to what those before it saw.
void add_sub_mesh(Json& answer, const Json& seen) {
  const bool refused = seen == refusal();
  if (refused && answer.is_null()) answer = refusal();
  if (refused != (answer == refusal())) answer = "refused on some ranks alone";
  if (refused || answer.is_string()) return;
  if (answer.is_null()) {
    answer = seen.at("description");
    answer.update({{"meshes", Json::array()}, {"mesh_of_rank", Json::array()}});
  }
  answer["mesh_of_rank"].push_back(number_in(answer["meshes"], seen.at("ranks")));
  answer["coord_of_rank"].push_back(seen.at("coordinate"));
}

Json seen_by_this_rank(const DeviceMesh& mesh) {
  return {{"description", description_of(mesh)},
          {"ranks", to_json(mesh.layout().ranks())},
          {"coordinate", *mesh.get_coordinate()}};
}

void add_process_group(Json& answer, const Group& group) {
  const RankGroup ranks(group.ranks().begin(), group.ranks().end());
  answer["group_of_rank"].push_back(number_in(answer["groups"], to_json(ranks)));
  answer["rank_in_group"].push_back(group.rank().value);
}

// Sub-meshes that the peer means to give and cannot reach where cp has been flattened away, each
// with the accessor that gives the same.
const std::map<std::string, std::string>& unreachable() {
  static const std::map<std::string, std::string> kUnreachable{
      {"get_dp_shard_mesh", "get_ep_mesh"},  // That of HSDP.
      {"get_dp_model_mesh(get_pp_stage_mesh)", "get_dp_model_mesh"},
      {"get_tp_mesh(get_pp_stage_mesh)", "get_tp_mesh"}};
  return kUnreachable;
}

// Those of the table, and those that stand in for what the peer cannot reach.
std::set<std::string> asked_accessors(const Json& test_case) {
  std::set<std::string> names;
  for (const auto& [name, unused] : test_case.at("result").at("sub").items()) {
    names.insert(name);
    const auto same = unreachable().find(name);
    if (same != unreachable().end()) names.insert(same->second);
  }
  return names;
}

void add_rank(Json& answer, const Json& test_case, const DeviceMesh& mesh) {
  const Json description = description_of(mesh);
  if (!answer.contains("mesh")) answer["mesh"] = description;
  if (answer["mesh"] != description) answer["mesh"] = "differs between ranks";
  answer["registered_as_world_mesh"] = olmo::get_world_mesh() == mesh;
  answer["coord_of_rank"].push_back(*mesh.get_coordinate());
  for (const std::string& name : asked_accessors(test_case)) {
    add_sub_mesh(answer["sub"][name],
                 result_or_refusal([&] { return seen_by_this_rank(sub_mesh(name, mesh)); }));
  }
  if (answer["get_dp_process_group"].is_null()) {
    answer["get_dp_process_group"]["groups"] = Json::array();
  }
  add_process_group(answer["get_dp_process_group"], olmo::get_dp_process_group(mesh));
}

// What all ranks see together; the refusal where all refuse, and then nothing is left.
Json answer_of(const Json& test_case, const std::function<DeviceMesh()>& build) {
  Json answer;
  int64_t refusals = 0;
  for (int64_t rank = 0; rank < test_case.at("world_size"); ++rank) {
    const Surroundings surroundings(value_or(test_case, "env", Json::object()));
    World::make_current(World::fake(GlobalRank{rank}, test_case.at("world_size")));
    const Json refused = result_or_refusal([&]() -> Json {
      const DeviceMesh mesh = build();
      if (test_case.at("result").contains("sub")) add_rank(answer, test_case, mesh);
      return "built";
    });
    if (refused != refusal()) continue;
    ++refusals;
    if (olmo::get_world_mesh()) return "refused, but a world mesh is registered";
  }
  if (refusals == 0) return answer;
  return refusals == test_case.at("world_size") ? refusal() : "refused on some ranks alone";
}

// Replaces the peer's failures to reach a sub-mesh by the answer to the accessor that gives the
// same: the peer's, or ours where the table does not ask for it.
const Rule* add_unreachable(const Json& test_case, const Json& ours, Json& sub) {
  const Rule* rule = nullptr;
  if (value_or(test_case, "cp", nullptr).is_null()) return rule;
  for (const auto& [name, same_as] : unreachable()) {
    const bool of_stage = name.find("get_pp_stage_mesh") != name.npos;
    if (of_stage && value_or(test_case, "pp", nullptr).is_null()) continue;
    if (value_or(sub, name, nullptr) != refusal()) continue;
    const Json same = value_or(sub, same_as, value_or(ours, same_as, refusal()));
    if (same == refusal()) continue;
    sub[name] = same;
    rule = &rules::kUnreachableSubMesh;
  }
  return rule;
}

Outcome compare(const Json& test_case, Json got) {
  Json expected = errors_as_refusals(test_case.at("result"));
  if (expected == refusal() || !got.is_object()) return {expected, got};
  const Rule* const rule = add_unreachable(test_case, got.at("sub"), expected["sub"]);
  Json asked = Json::object();
  for (const auto& [name, unused] : expected["sub"].items()) asked[name] = got["sub"].at(name);
  got["sub"] = asked;
  return {expected, got, rule};
}

Outcome check_world_mesh(const Json& test_case) {
  const Json got = answer_of(
      test_case, [&] { return olmo::build_world_mesh(olmo_config_of(test_case), "cpu"); });
  if (const Rule* const rule = olmo_refusal_rule(test_case)) return {refusal(), got, rule};
  return compare(test_case, got);
}

Outcome check_expert_mesh(const Json& test_case) {
  const auto config = test_case.at("ep").get<olmo::ExpertParallelConfig>();
  return compare(test_case, answer_of(test_case, [&] {
                   return olmo::build_expert_parallel_mesh(config, "cpu");
                 }));
}

}  // namespace

Check olmo_world_mesh_check() {
  return check_world_mesh;
}
Check olmo_expert_mesh_check() {
  return check_expert_mesh;
}

}  // namespace tessera::golden

// olmo_mesh, part "plan": the layout of the world mesh and its data parallel groups, without a
// world.
#include "tessera/plan/olmo/plan.h"
#include "tests/golden/golden.h"
#include "tests/golden/olmo_case.h"
#include "tests/golden/plan_json.h"

namespace tessera::golden {
namespace {

Json groups_of(const Plan& plan, const std::string& name) {
  Json groups = Json::array();
  for (const RankGroup& group : plan.spec(name).groups.groups()) groups.push_back(to_json(group));
  return groups;
}

Json plan_of(const Json& test_case, int64_t num_nodes) {
  const Plan plan = olmo_plan(test_case.at("world_size"), olmo_config_of(test_case), num_nodes);
  const Layout& layout = plan.layout("world");
  Json answer{{"names", layout.axis_names()},
              {"shape", Json::array()},
              {"coord_of_rank", Json::array()},
              {"dp", groups_of(plan, "dp")}};
  for (const Axis& axis : layout.axes()) answer["shape"].push_back(axis.size());
  for (int64_t rank = 0; rank < plan.world(); ++rank) {
    answer["coord_of_rank"].push_back(layout.coordinate(GlobalRank{rank}));
  }
  return answer;
}

Outcome check_plan(const Json& test_case) {
  const int64_t num_nodes = olmo_num_nodes(test_case);
  const Json got = result_or_refusal([&] { return plan_of(test_case, num_nodes); });
  const Json& result = test_case.at("result");
  if (result.contains("error")) return {refusal(), got};
  if (const Rule* const rule = olmo_refusal_rule(test_case)) return {refusal(), got, rule};
  return {Json{{"names", result.at("mesh").at("names")},
               {"shape", result.at("mesh").at("shape")},
               {"coord_of_rank", result.at("coord_of_rank")},
               {"dp", result.at("get_dp_process_group").at("groups")}},
          got};
}

}  // namespace

Table olmo_mesh_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const Json& test_case : file.at("cases")) {
      if (!test_case.contains("kind")) list.push_back({"plan", test_case});
      list.push_back({test_case.value("kind", "mesh"), test_case});
    }
    return list;
  };
  return {"olmo_mesh",
          {{"plan", check_plan},
           {"mesh", olmo_world_mesh_check()},
           {"expert_parallel_mesh", olmo_expert_mesh_check()}},
          cases};
}

}  // namespace tessera::golden

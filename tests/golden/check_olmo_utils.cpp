// olmo_utils: OLMo-core's distributed.utils in one process: variables, turns, factors, coordinates,
// back ends.
#include "tessera/base/text.h"
#include "tessera/dialect/olmo/utils.h"
#include "tests/golden/golden.h"
#include "tests/golden/rules.h"
#include "tests/golden/surroundings.h"

namespace tessera::golden {
namespace {

Json odd_group_answers(const World& world) {
  RankGroup odd;
  for (int64_t rank = 1; rank < world.size(); rank += 2) odd.push_back(GlobalRank{rank});
  const Group group = world.group(odd, {.name = "odd"});
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < group.size(); ++rank)
    ranks.push_back(olmo::get_global_rank(rank, group));
  return {{"get_rank", olmo::get_rank(group)},
          {"get_world_size", olmo::get_world_size(group)},
          {"get_fs_local_rank", olmo::get_fs_local_rank(group)},
          {"get_global_rank", ranks}};
}

Json answer(const std::function<Json()>& body) {
  return result_or_refusal(body);
}

void make_fake_world(const Json& test_case) {
  World::make_current(
      World::fake(GlobalRank{test_case.at("rank").get<int64_t>()}, test_case.at("world_size")));
}

Outcome check_env(const Json& test_case) {
  const Surroundings surroundings(value_or(test_case, "env", Json::object()));
  if (test_case.at("distributed")) make_fake_world(test_case);
  Json got{{"is_distributed", olmo::is_distributed()},
           {"get_rank", olmo::get_rank()},
           {"get_world_size", olmo::get_world_size()},
           {"get_local_rank", answer([] { return olmo::get_local_rank(); })},
           {"get_fs_local_rank", answer([] { return olmo::get_fs_local_rank(); })},
           {"get_local_world_size", answer([] { return olmo::get_local_world_size(); })},
           {"get_num_nodes", answer([] { return olmo::get_num_nodes(); })},
           {"validate_env_vars", answer([] {
              olmo::validate_env_vars();
              return nullptr;
            })},
           {"get_global_rank(0)", olmo::get_global_rank(0)}};
  const Json& expected = test_case.at("result");
  if (expected.contains("odd_group")) {
    got["odd_group"] = answer([] { return odd_group_answers(*World::current()); });
  }
  return {errors_as_refusals(expected), got};
}

bool had_a_world(const Json& test_case) {
  return !value_or(test_case, "pre_initialized_backend", nullptr).is_null();
}

Json initialise(const Json& test_case) {
  const Variables before = all_variables();
  if (had_a_world(test_case)) make_fake_world(test_case);
  olmo::init_distributed(
      value_or(test_case, "backend", "nccl").get<std::string>(),
      std::chrono::seconds(value_or(test_case, "timeout_s", 1800).get<int64_t>()),
      value_or(test_case, "shared_filesytem", true),
      {.rank = test_case.at("rank"), .world_size = test_case.at("world_size")});
  Json changed = Json::object();
  for (const auto& [name, value] : all_variables()) {
    const auto at = before.find(name);
    if (at == before.end() || at->second != value) changed[name] = value;
  }
  if (changed.contains("MASTER_PORT")) changed["MASTER_PORT"] = "<free port>";
  return {
      {"ok", true}, {"env_set", changed}, {"process_group_initialized", olmo::is_distributed()}};
}

// Arguments of another world than the variables speak of.
bool contradicts(const Json& test_case) {
  const Json env = value_or(test_case, "env", Json::object());
  const auto differs = [&](const char* argument, const char* variable, const char* otherwise) {
    const auto number = to_integer(env.value(variable, otherwise));
    return !number || test_case.at(argument) != *number;
  };
  return differs("world_size", "WORLD_SIZE", "1") || differs("rank", "RANK", "0");
}

// A refusal leaves the world as it was: none, or the one that was there before.
Outcome check_refused_init(const Json& test_case, const Json& got, const Rule* rule) {
  return {Json{refusal(), had_a_world(test_case)}, Json{got, olmo::is_distributed()}, rule};
}

Outcome check_init(const Json& test_case) {
  const Surroundings surroundings(value_or(test_case, "env", Json::object()));
  const Json got = result_or_refusal([&] { return initialise(test_case); });
  const Json& result = test_case.at("result");
  if (result.contains("error")) {
    const bool left = value_or(result, "process_group_initialized", false) ||
                      !value_or(result, "env_set", Json::object()).empty();
    return check_refused_init(test_case, got, left ? &rules::kStateLeftOver : nullptr);
  }
  if (contradicts(test_case)) {
    return check_refused_init(test_case, got, &rules::kContradictingArguments);
  }
  return {result, got};
}

Outcome check_turns(const Json& test_case) {
  Json turns = Json::array();
  int64_t count = 0;
  for (int64_t rank = 0; rank < test_case.at("world_size"); ++rank) {
    const olmo::Turns mine = olmo::turns_of(
        {.n = test_case.at("n"), .world_size = test_case.at("world_size"), .local_rank = rank});
    turns.push_back(mine.mine);
    count = mine.count;
  }
  return {Json{test_case.at("turn_of_rank"), test_case.at("num_turns")}, Json{turns, count}};
}

Outcome check_factor(const Json& test_case) {
  return {test_case.at("factor"), olmo::get_reduce_divide_factor(test_case.at("world"))};
}

Outcome check_coordinates(const Json& test_case) {
  AxisSizes axes;
  for (const int64_t size : test_case.at("mesh_shape"))
    axes.push_back({concat("axis ", axes.size()), size});
  const Layout mesh =
      Layout::from_ranks(axes, to_ranks(test_case.at("mesh_ranks").get<std::vector<int64_t>>()));
  Json got = Json::array();
  for (int64_t rank = 0; rank < test_case.at("world_size"); ++rank) {
    const auto found = olmo::get_mesh_coordinates(mesh, rank);
    got.push_back(found ? Json(*found) : Json());
  }
  return {test_case.at("coord_of_rank"), got};
}

Outcome check_backends(const Json& test_case) {
  const std::string backend = test_case.at("backend");
  return {Json{test_case.at("cuda"), test_case.at("cpu")},
          Json{olmo::backend_supports_cuda(backend), olmo::backend_supports_cpu(backend)}};
}

std::vector<Case> cases_of(const Json& file) {
  std::vector<Case> list;
  for (const auto& [part, content] : file.items()) {
    if (part == "meta") continue;
    for (const auto& [key, entry] : content.items()) {
      Json test_case = part == "get_reduce_divide_factor"
                           ? Json{{"world", std::stoll(key)}, {"factor", entry}}
                           : entry;
      if (!test_case.contains("id")) test_case["id"] = concat(part, "[", key, "]");
      list.push_back({part, test_case});
    }
  }
  return list;
}

}  // namespace

Table olmo_utils_table() {
  return {"olmo_utils",
          {{"env", check_env},
           {"init_distributed", check_init},
           {"do_n_at_a_time", check_turns},
           {"get_reduce_divide_factor", check_factor},
           {"get_mesh_coordinates", check_coordinates},
           {"backend_supports", check_backends}},
          cases_of};
}

}  // namespace tessera::golden

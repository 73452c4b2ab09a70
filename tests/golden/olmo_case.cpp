#include "tests/golden/olmo_case.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tessera/plan/olmo/json.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

int64_t degree_of(const Json& test_case, const char* kind) {
  return value_or(value_or(test_case, kind, Json::object()), "degree", 1);
}

bool has_known_type(const Json& dp) {
  constexpr std::array<std::string_view, 3> kTypes{"fsdp", "hsdp", "ddp"};
  return std::ranges::find(kTypes, dp.at("name").get<std::string>()) != kTypes.end();
}

// Whether replicas times shards, as they are given or follow from the nodes, are all ranks of HSDP.
bool covers(const Json& test_case) {
  const Json& dp = test_case.at("dp");
  const int64_t ranks = test_case.at("world_size").get<int64_t>() / degree_of(test_case, "pp") /
                        degree_of(test_case, "cp") / degree_of(test_case, "tp");
  const Json replicas = value_or(dp, "num_replicas", nullptr);
  const Json shards = value_or(dp, "shard_degree", nullptr);
  if (!replicas.is_null() && !shards.is_null()) {
    return replicas.get<int64_t>() * shards.get<int64_t>() == ranks;
  }
  return !replicas.is_null() || !shards.is_null() || ranks % olmo_num_nodes(test_case) == 0;
}

}  // namespace

olmo::WorldMeshConfig olmo_config_of(const Json& test_case) {
  Json parts;
  for (const char* kind : {"dp", "tp", "cp", "pp", "ep"})
    parts[kind] = value_or(test_case, kind, nullptr);
  return parts.get<olmo::WorldMeshConfig>();
}

int64_t olmo_num_nodes(const Json& test_case) {
  const Json env = value_or(test_case, "env", Json::object());
  const auto number = [&](const char* name) { return std::stoll(env.at(name).get<std::string>()); };
  if (env.contains("NUM_NODES")) return number("NUM_NODES");
  if (!env.contains("LOCAL_WORLD_SIZE")) return 0;
  return test_case.at("world_size").get<int64_t>() / number("LOCAL_WORLD_SIZE");
}

const Rule* olmo_refusal_rule(const Json& test_case) {
  const Json dp = value_or(test_case, "dp", nullptr);
  if (test_case.at("result").contains("error") || dp.is_null()) return nullptr;
  if (!has_known_type(dp)) return &rules::kUnknownDataParallelType;
  if (degree_of(test_case, "ep") < 0) return &rules::kNegativeDegree;
  if (dp.at("name") == "hsdp" && !covers(test_case)) return &rules::kDegreesDoNotCover;
  return nullptr;
}

}  // namespace tessera::golden

#include "tessera/plan/olmo/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/plan/olmo/json.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using olmo::DataParallelType;
using olmo::WorldMeshConfig;

const olmo::DataParallelConfig kHsdp{.name = DataParallelType::hsdp};
const olmo::DataParallelConfig kFsdp{.name = DataParallelType::fsdp};

std::string layout_of(int64_t world, const WorldMeshConfig& config, int64_t nodes = 1) {
  return olmo_plan(world, config, nodes).layout("world").to_string();
}

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> all;
  for (const GroupSpec& spec : plan.specs()) all.push_back(spec.name);
  return all;
}

TEST(OlmoPlan, WithoutConfigurationsTheWorldIsDataParallel) {
  EXPECT_EQ(layout_of(4, {}), "[dp=4:1]");
}

TEST(OlmoPlan, DimensionsStandFromPipelineToTensor) {
  EXPECT_EQ(layout_of(8, {.dp = kFsdp}), "[dp=8:1]");
  EXPECT_EQ(layout_of(16, {.dp = kHsdp}, 2), "[dp_replicate=2:8 dp_shard=8:1]");
  EXPECT_EQ(
      layout_of(32,
                {.dp = kHsdp, .tp = {{.degree = 2}}, .cp = {{.degree = 2}}, .pp = {{.degree = 2}}},
                2),
      "[pp=2:16 dp_replicate=2:8 dp_shard=2:4 cp=2:2 tp=2:1]");
}

TEST(OlmoPlan, ADegreeOfOneIsADimension) {
  const Plan plan = olmo_plan(2, {.dp = kFsdp, .tp = {{.degree = 1}}, .pp = {{.degree = 1}}});
  EXPECT_EQ(plan.layout("world").axis_names(), (AxisNames{"pp", "dp", "tp"}));
}

TEST(OlmoPlan, FlattenedGroupsComeLast) {
  const Plan plan =
      olmo_plan(16, {.dp = kHsdp, .tp = {{.degree = 2}}, .cp = {{.degree = 2}}}, /*num_nodes=*/2);
  EXPECT_EQ(names(plan),
            (std::vector<std::string>{"dp_replicate", "dp_shard", "cp", "tp", "dp", "dp_cp"}));
  EXPECT_EQ(plan.group_of(GlobalRank{1}, "dp"), to_ranks({1, 5, 9, 13}));
  EXPECT_EQ(plan.group_of(GlobalRank{1}, "dp_cp"), to_ranks({1, 3, 5, 7}));
  EXPECT_EQ(names(olmo_plan(8, {.dp = kFsdp, .cp = {{.degree = 2}}})),
            (std::vector<std::string>{"dp", "cp", "dp_cp"}));
}

TEST(OlmoPlan, ExpertsLiveOnTheShards) {
  const Plan plan = olmo_plan(8, {.dp = kHsdp, .ep = {{.degree = 4}}}, 2);
  EXPECT_EQ(names(plan), (std::vector<std::string>{"dp_replicate", "dp_shard", "dp"}));
  EXPECT_EQ(plan.group_of(GlobalRank{5}, "dp_shard"), to_ranks({4, 5, 6, 7}));
}

TEST(OlmoPlan, ReplicasAndShardsAreHsdpsAlone) {
  olmo::DataParallelConfig dp = kFsdp;
  dp.num_replicas = 3;
  EXPECT_EQ(layout_of(8, {.dp = dp}), "[dp=8:1]");
}

// The first broken rule is reported, as in OLMo.
TEST(OlmoPlan, RefusalsComeInThePagesOrder) {
  const auto refused = [](const char* text, int64_t world, const std::string& start) {
    const auto config = nlohmann::json::parse(text).get<WorldMeshConfig>();
    const std::string message =
        testkit::message_of<ConfigError>([&] { olmo_plan(world, config, 2); });
    EXPECT_EQ(message.substr(0, start.size()), start) << text;
  };
  refused(R"({"tp": {"degree": 3}})", 8, "other kinds of parallelism need data parallelism");
  refused(R"({"dp": {"name": "fsdp"}, "pp": {"degree": 3}, "cp": {"degree": 0}})", 8,
          "PipelineParallelConfig.degree is 3, which does not divide the 8 remaining ranks");
  refused(R"({"dp": {"name": "fsdp"}, "pp": {"degree": 4}, "cp": {"degree": 4},
              "tp": {"degree": 3}})",
          8, "ContextParallelConfig.degree is 4, which does not divide the 2 remaining ranks");
  refused(R"({"dp": {"name": "fsdp"}, "tp": {"degree": 0}, "ep": {"degree": 3}})", 8,
          "TensorParallelConfig.degree is 0, but must be at least 1");
  refused(R"({"dp": {"name": "fsdp"}, "tp": {"degree": 2}, "ep": {"degree": 3}})", 8,
          "ExpertParallelConfig.degree is 3, which does not divide the 4 remaining ranks");
  refused(R"({"dp": {"name": "fsdp"}, "tp": {"degree": 2}, "ep": {"degree": 4}})", 8,
          "expert parallelism (degree 4) and tensor parallelism (degree 2) exclude each other");
  refused(R"({"dp": {"name": "ddp"}, "ep": {"degree": 4}})", 8,
          "expert parallelism (degree 4) needs HSDP, not ddp");
  refused(R"({"dp": {"name": "hsdp", "num_replicas": 3}, "ep": {"degree": 2}})", 8,
          "DataParallelConfig.num_replicas is 3");
  refused(R"({"dp": {"name": "hsdp"}, "ep": {"degree": 2}})", 8,
          "ExpertParallelConfig.degree is 2, but HSDP shards over 4 ranks");
  refused(R"({"dp": {"name": "hsdp"}, "ep": {"degree": -1}})", 8,
          "ExpertParallelConfig.degree is -1, but must be at least 1");
  refused(R"({"dp": {"name": "fsdp"}})", 0, "world size is 0, but must be at least 1");
}

}  // namespace
}  // namespace tessera

#include "tessera/plan/dialect.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/plan/megatron/plan.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

DialectPlan plan_of(std::string_view dialect, int64_t world, const FlagValues& flags) {
  return plan_in(find_dialect(dialect), {.world = world, .flags = flags});
}

std::string refusal_of(std::string_view dialect, const FlagValues& flags) {
  return testkit::message_of<ConfigError>([&] { plan_of(dialect, 8, flags); });
}

TEST(Dialect, MegatronsFlagsGiveMegatronsPlan) {
  const DialectPlan said =
      plan_of("megatron", 64, {{"--tp", "8"}, {"--pipeline-model-parallel-size", "2"}});
  EXPECT_EQ(said.plan, megatron_plan(64, {.tensor_model_parallel_size = 8,
                                          .pipeline_model_parallel_size = 2,
                                          .create_gloo_process_groups = false}));
  const std::vector<std::pair<std::string, std::string>> lines{
      {"decoder", "tp 8 × cp 1 × dp 4 × pp 2"},
      {"experts", "etp 8 × ep 1 × edp 4 × pp 2"},
      {"order", "tp-cp-ep-dp-pp, fastest first"}};
  EXPECT_EQ(said.lines(), lines);
}

TEST(Dialect, OlmoAsksTheMachineForItsNodes) {
  const DialectPlan said = plan_in(
      find_dialect("olmo"), {.world = 16, .gpus_per_node = 4, .flags = {{"--dp-type", "hsdp"}}});
  EXPECT_EQ(said.layouts[0].sizes(), "dp_replicate 4 × dp_shard 4");
  EXPECT_EQ(said.size(Role::kShards), 4);
  EXPECT_EQ(said.copies(), 4);
}

TEST(Dialect, NemoHasAMeshForExperts) {
  const FlagValues sizes{{"--tp-size", "2"}, {"--ep-size", "4"}};
  const DialectPlan said = plan_of("nemo", 16, sizes);
  EXPECT_EQ(said.layouts[1].sizes(), "pp 1 × ep_shard 2 × ep 4 × tp 2");
  FlagValues today = sizes;
  today.push_back({"--moe-mesh", "today"});
  EXPECT_EQ(plan_of("nemo", 16, today).layouts[1].sizes(), "pp 1 × ep_shard 4 × ep 4");
}

TEST(Dialect, RolesCoverTheWorld) {
  for (const Dialect& dialect : dialects()) {
    const DialectPlan said = plan_of(dialect.name, 64, dialect.example);
    EXPECT_EQ(said.size(Role::kTensor) * said.size(Role::kContext) * said.size(Role::kData) *
                  said.size(Role::kPipeline),
              64)
        << dialect.name;
    for (const RoleOf& role : said.roles)
      EXPECT_NE(said.plan.find(role.name), nullptr) << role.name;
  }
}

TEST(Dialect, AnotherDialectsFlagIsRefusedWithTheOneToUse) {
  EXPECT_EQ(refusal_of("olmo", {{"--tp-size", "2"}}),
            "--tp-size is a flag of the dialect nemo, but this is olmo; in olmo it is --tp");
  EXPECT_EQ(refusal_of("nemo", {{"--tp", "2"}}),
            "--tp is a flag of the dialect megatron, but this is nemo; in nemo it is --tp-size");
  EXPECT_EQ(refusal_of("megatron", {{"--num-replicas", "2"}}),
            "--num-replicas is a flag of the dialect olmo, but this is megatron; in megatron it is "
            "--num-distributed-optimizer-instances");
  EXPECT_NE(refusal_of("nemo", {{"--order", "tp-dp"}}).find("nemo has no such choice: its axes"),
            std::string::npos);
}

TEST(Dialect, WrongFlagsAndValuesNameTheFix) {
  EXPECT_EQ(refusal_of("megatron", {{"--tp", "2"}, {"--tensor-model-parallel-size", "2"}}),
            "--tp and --tensor-model-parallel-size say the same; give one of them");
  EXPECT_EQ(refusal_of("olmo", {{"--tp", "2"}, {"--tp", "4"}}),
            "--tp is given twice; give it once");
  EXPECT_NE(refusal_of("nemo", {{"--tp-siez", "2"}}).find("did you mean '--tp-size'?"),
            std::string::npos);
  EXPECT_NE(refusal_of("olmo", {{"--tp", "two"}}).find("--tp 'two' is not a whole number"),
            std::string::npos);
  EXPECT_NE(refusal_of("nemo", {{"--moe-mesh", "tody"}}).find("did you mean 'today'?"),
            std::string::npos);
  EXPECT_NE(refusal_of("nemo", {{"--strategy", "fsdp3"}}).find("fsdp2"), std::string::npos);
  EXPECT_NE(refusal_of("olmo", {{"--dp-type", "hsd"}}).find("hsdp"), std::string::npos);
  EXPECT_NE(testkit::message_of<ConfigError>([] { find_dialect("memo"); }).find("'nemo'"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera

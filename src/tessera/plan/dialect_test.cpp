#include "tessera/plan/dialect.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/plan/megatron/plan.h"
#include "tessera/plan/train_plan.h"
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

TEST(Dialect, TesseraHasThePlanOfTheTrainer) {
  const DialectPlan said = plan_of("tessera", 32,
                                   {{"--dp", "4"},
                                    {"--dp-type", "hsdp"},
                                    {"--dp-replicate", "2"},
                                    {"--tp", "2"},
                                    {"--cp", "2"},
                                    {"--pp", "2"},
                                    {"--ep", "4"},
                                    {"--etp", "2"}});
  const std::vector<std::pair<std::string, std::string>> lines{
      {"mesh", "pp 2 × dp_replicate 2 × dp_shard 2 × cp 2 × tp 2"},
      {"experts", "pp 2 × expert_replicate 2 × expert_shard 1 × ep 4 × etp 2"},
      {"dp-type", "hsdp"}};
  EXPECT_EQ(said.lines(), lines);
  const Plan trained = train_plan(
      32, {.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2, .ep = 4, .etp = 2});
  for (const GroupSpec& spec : said.plan.specs()) {
    EXPECT_EQ(spec, trained.spec(spec.name)) << spec.name;
  }
  EXPECT_EQ(said.find(Role::kShards)->name, "dp_shard_cp");
  EXPECT_EQ(said.find(Role::kReplicas)->name, "dp_replicate");
  EXPECT_EQ(said.find(Role::kExpertReplicas)->name, "expert_replicate");
  EXPECT_EQ(said.find(Role::kGradients), nullptr);
  EXPECT_EQ(said.copies(), 2);
}

std::vector<std::string> kinds_of(const DialectPlan& plan) {
  std::vector<std::string> names;
  for (const GroupSpec& spec : plan.plan.specs()) names.push_back(spec.name);
  return names;
}

TEST(Dialect, TesseraLeavesGroupsOfOneRankOut) {
  using Names = std::vector<std::string>;
  const DialectPlan ddp = plan_of("tessera", 8, {{"--pp", "2"}});
  EXPECT_EQ(kinds_of(ddp),
            (Names{"pp", "dp_replicate", "batch", "loss", "grad", "norm", "embedding"}));
  EXPECT_EQ(ddp.find(Role::kGradients)->name, "grad");
  EXPECT_EQ(ddp.copies(), 1) << "replicas are not shards";
  const DialectPlan alone = plan_of("tessera", 1, {});
  EXPECT_EQ(kinds_of(alone), (Names{"batch"}));
  EXPECT_EQ(alone.layouts[0].sizes(), "pp 1 × dp_replicate 1 × dp_shard 1 × cp 1 × tp 1");
  const DialectPlan experts = plan_of("tessera", 4, {{"--dp-type", "fsdp"}, {"--ep", "2"}});
  EXPECT_EQ(kinds_of(experts), (Names{"dp_shard", "dp_shard_cp", "expert_shard", "ep", "batch",
                                      "loss", "grad", "expert_grad", "norm"}));
  const DialectPlan whole = plan_of("tessera", 4, {{"--dp-type", "hsdp"}, {"--dp-replicate", "4"}});
  EXPECT_EQ(whole.copies(), 4) << "although each shard group has one rank";
}

TEST(Dialect, TesseraRefusesWhatTheTrainerRefuses) {
  EXPECT_EQ(
      refusal_of("tessera", {{"--dp", "4"}, {"--tp", "4"}}),
      "the product of pp 1, dp 4, cp 1 and tp 4 is 16, but there are 8 ranks; change a degree "
      "or the number of ranks");
  EXPECT_EQ(refusal_of("tessera", {{"--dp-replicate", "2"}}),
            "dp-replicate is 2, which needs dp-type hsdp or zero1, but it is ddp; leave one out");
  EXPECT_EQ(refusal_of("tessera", {{"--dp", "0"}}), "dp is 0, but must be at least 1");
  EXPECT_EQ(
      refusal_of("tessera", {{"--tp", "3"}}),
      "world size 8 is not divisible by tp·cp·pp = 3 (tp=3, cp=1, pp=1); nearest world sizes: "
      "6, 9");
  EXPECT_EQ(refusal_of("tessera", {{"--num-replicas", "2"}}),
            "--num-replicas is a flag of the dialect olmo, but this is tessera; in tessera it is "
            "--dp-replicate");
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
  EXPECT_NE(refusal_of("nemo", {{"--order", "tp-dp"}}).find("nemo has no such flag: its axes"),
            std::string::npos);
}

TEST(Dialect, WrongFlagsAndValuesNameTheFix) {
  EXPECT_EQ(refusal_of("megatron", {{"--tp", "2"}, {"--tensor-model-parallel-size", "2"}}),
            "--tp and --tensor-model-parallel-size mean the same; give one of them");
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

#include "tessera/plan/nemo/plan.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using nemo::DDPConfig;
using nemo::FSDP2Config;
using nemo::MegatronFSDPConfig;
using nemo::MoeMesh;
using nemo::ParallelismSizes;
using testkit::message_of;

std::string names(const Plan& plan) {
  std::vector<std::string> all;
  for (const GroupSpec& spec : plan.specs()) all.push_back(spec.name);
  return join(all, " ");
}

std::string refusal(int64_t world, const nemo::DistributedConfig& config,
                    const ParallelismSizes& sizes, const nemo::MeshOptions& options = {}) {
  return message_of<ConfigError>([&] { (void)nemo_plan(world, config, sizes, options); });
}

TEST(NemoPlan, FSDP2HasFiveAxesAndThreeFlattenedOnes) {
  const Plan plan = nemo_plan(32, FSDP2Config{},
                              {.dp_replicate_size = 2, .tp_size = 2, .pp_size = 2, .cp_size = 2});
  EXPECT_EQ(plan.layout("world").to_string(),
            "[pp=2:16 dp_replicate=2:8 dp_shard=2:4 cp=2:2 tp=2:1]");
  EXPECT_EQ(names(plan), "pp dp_replicate dp_shard cp tp dp dp_shard_cp dp_cp");
  EXPECT_EQ(plan.group_of(GlobalRank{21}, "dp"), to_ranks({17, 21, 25, 29}));
  EXPECT_EQ(plan.group_of(GlobalRank{21}, "dp_shard_cp"), to_ranks({17, 19, 21, 23}));
  EXPECT_EQ(plan.group_of(GlobalRank{21}, "dp_cp"), to_ranks({17, 19, 21, 23, 25, 27, 29, 31}));
}

TEST(NemoPlan, MegatronFSDPFlattensOnlyWithContextParallelism) {
  const Plan plain = nemo_plan(8, MegatronFSDPConfig{}, {.tp_size = 2});
  EXPECT_EQ(plain.layout("world").to_string(), "[dp=4:2 cp=1 tp=2:1]");
  EXPECT_EQ(names(plain), "dp cp tp");
  const Plan with_cp = nemo_plan(8, MegatronFSDPConfig{}, {.tp_size = 2, .cp_size = 2});
  EXPECT_EQ(names(with_cp), "dp cp tp dp_cp");
  EXPECT_EQ(with_cp.group_of(GlobalRank{3}, "dp_cp"), to_ranks({1, 3, 5, 7}));
}

TEST(NemoPlan, DDPAveragesOverAllRanks) {
  const Plan plan = nemo_plan(6, DDPConfig{});
  EXPECT_EQ(names(plan), "dp");
  EXPECT_EQ(plan.group_of(GlobalRank{2}, "dp"), to_ranks({0, 1, 2, 3, 4, 5}));
}

TEST(NemoPlan, TheDocumentsMoeMeshLeavesTpAlone) {
  const Plan plan = nemo_plan(16, FSDP2Config{}, {.tp_size = 2, .pp_size = 2, .ep_size = 2});
  EXPECT_EQ(plan.layout("moe").to_string(), "[pp=2:8 ep_shard=2:4 ep=2:2 tp=2:1]");
  EXPECT_EQ(names(plan), "pp dp_replicate dp_shard cp tp dp dp_shard_cp dp_cp ep_shard ep");
  EXPECT_EQ(plan.group_of(GlobalRank{9}, "ep"), to_ranks({9, 11}));
  EXPECT_EQ(plan.group_of(GlobalRank{9}, "ep_shard"), to_ranks({9, 13}));
}

TEST(NemoPlan, TodaysMoeMeshTakesTpIn) {
  const Plan plan = nemo_plan(16, FSDP2Config{}, {.tp_size = 2, .pp_size = 2, .ep_size = 4},
                              {.moe_mesh = MoeMesh::kToday});
  EXPECT_EQ(plan.layout("moe").to_string(), "[pp=2:8 ep_shard=2:4 ep=4:1]");
  EXPECT_EQ(names(plan),
            "pp dp_replicate dp_shard cp tp dp dp_shard_cp dp_cp dp_replicate_dp_shard_cp_tp "
            "ep_shard ep");
  EXPECT_EQ(plan.group_of(GlobalRank{9}, "ep"), to_ranks({8, 9, 10, 11}));
  EXPECT_EQ(plan.group_of(GlobalRank{9}, "dp_replicate_dp_shard_cp_tp")->size(), 8U);
}

TEST(NemoPlan, SizesBelowOneAreInferredWhereThePageSaysSo) {
  const Plan inferred = nemo_plan(8, FSDP2Config{}, {.tp_size = 2});
  EXPECT_EQ(nemo_plan(8, FSDP2Config{}, {.dp_size = 0, .dp_replicate_size = -1, .tp_size = 2}),
            inferred);
  EXPECT_EQ(nemo_plan(8, FSDP2Config{}, {.dp_size = 4, .tp_size = 2}), inferred);
  EXPECT_NE(refusal(8, FSDP2Config{}, {.tp_size = 0}).find("size of tp_size is 0"),
            std::string::npos);
}

TEST(NemoPlan, RanksMayBeListed) {
  const Plan plan =
      nemo_plan(8, FSDP2Config{}, {.tp_size = 2}, {.ranks = std::vector<int64_t>{6, 2, 5, 1}});
  EXPECT_EQ(plan.world(), 8);
  EXPECT_EQ(plan.group_of(GlobalRank{2}, "tp"), to_ranks({6, 2}));
  EXPECT_EQ(plan.group_of(GlobalRank{2}, "dp_cp"), to_ranks({2, 1}));
  EXPECT_FALSE(plan.layout("world").contains(GlobalRank{0}));
}

TEST(NemoPlan, ListedRanksGiveTodaysMoeMeshNoLine) {
  const Plan plan = nemo_plan(
      8, FSDP2Config{}, {.pp_size = 2, .ep_size = 2},
      {.moe_mesh = MoeMesh::kToday, .ranks = std::vector<int64_t>{7, 6, 5, 4, 3, 2, 1, 0}});
  EXPECT_EQ(names(plan), "pp dp_replicate dp_shard cp tp dp dp_shard_cp dp_cp ep_shard ep");
  EXPECT_EQ(plan.group_of(GlobalRank{6}, "ep"), to_ranks({7, 6}));
  EXPECT_EQ(plan.group_of(GlobalRank{2}, "ep_shard"), to_ranks({2, 0}));
}

TEST(NemoPlan, GroupsHaveTheirTimeOutBackEndAndLane) {
  FSDP2Config config;
  config.backend = "gloo";
  const Plan plan = nemo_plan(8, config, {.ep_size = 2}, {.timeout_minutes = 7});
  for (const GroupSpec& spec : plan.specs()) {
    EXPECT_EQ(spec.timeout, std::chrono::minutes(7)) << spec.name;
    EXPECT_EQ(spec.backend, GroupBackend::kGloo) << spec.name;
  }
  EXPECT_EQ(plan.spec("pp").lane, Lane::kP2p);
  EXPECT_EQ(plan.spec("dp_shard_cp").lane, Lane::kReduce);
  EXPECT_EQ(plan.spec("ep_shard").lane, Lane::kReduce);
  EXPECT_EQ(plan.spec("cp").lane, Lane::kCompute);
  EXPECT_EQ(plan.spec("ep").lane, Lane::kCompute);
  EXPECT_EQ(nemo_plan(8, FSDP2Config{}).spec("tp").backend, GroupBackend::kDefault);
}

struct Refused {
  int64_t world;
  nemo::DistributedConfig config;
  ParallelismSizes sizes;
  nemo::MeshOptions options;
  const char* message;
};

TEST(NemoPlan, RefusalsNameTheValueTheRuleAndTheFix) {
  const std::vector<Refused> all{
      {8,
       DDPConfig{},
       {.dp_replicate_size = 2},
       {},
       "dp_replicate_size 2 needs fsdp2, but the strategy is ddp; leave it out, or choose fsdp2"},
      {8,
       MegatronFSDPConfig{},
       {.pp_size = 2},
       {},
       "megatron_fsdp has no pipeline parallelism, but pp_size is 2; set it to 1, or choose fsdp2"},
      {8,
       MegatronFSDPConfig{},
       {.ep_size = 2},
       {},
       "megatron_fsdp has no expert parallelism, but ep_size is 2; set it to 1, or choose fsdp2"},
      {8,
       DDPConfig{},
       {.tp_size = 2},
       {},
       "ddp has no tensor parallelism, but tp_size is 2; set it to 1, or choose fsdp2"},
      {8,
       DDPConfig{},
       {.cp_size = 2},
       {},
       "ddp has no context parallelism, but cp_size is 2; set it to 1, or choose fsdp2"},
      {8,
       FSDP2Config{},
       {.tp_size = 3},
       {},
       "world size 8 is not divisible by tp_size·cp_size·pp_size = 3 (tp_size=3, cp_size=1, "
       "pp_size=1); nearest world sizes: 6, 9"},
      {8,
       FSDP2Config{},
       {.dp_size = 2, .tp_size = 2},
       {},
       "dp_size 2 does not fit: dp_size·tp_size·cp_size·pp_size = 4, but there are 8 ranks; leave "
       "dp_size out to infer it"},
      {8,
       DDPConfig{},
       {.dp_size = 3},
       {},
       "dp_size 3 does not fit: dp_size·tp_size·cp_size·pp_size = 3, but there are 8 ranks; leave "
       "dp_size out to infer it"},
      {8,
       FSDP2Config{},
       {.dp_replicate_size = 3},
       {},
       "dp_size 8 is not divisible by dp_replicate_size 3; choose a divisor of 8"},
      {8,
       FSDP2Config{},
       {.dp_replicate_size = 8},
       {},
       "dp_replicate_size 8 leaves nothing to shard in dp_size 8; choose a smaller divisor, or ddp "
       "to replicate everything"},
      {8,
       FSDP2Config{},
       {.ep_size = 3},
       {},
       "ep_size 3 does not divide dp_size·cp_size = 8; choose a divisor of 8"},
      {8,
       FSDP2Config{},
       {.tp_size = 2, .ep_size = 8},
       {},
       "ep_size 8 does not divide dp_size·cp_size = 4; choose a divisor of 4, or today's MoE mesh, "
       "which includes tp"},
      {8,
       FSDP2Config{},
       {.tp_size = 2, .ep_size = 3},
       {.moe_mesh = MoeMesh::kToday},
       "ep_size 3 does not divide dp_size·cp_size·tp_size = 8; choose a divisor of 8"},
      {0, FSDP2Config{}, {}, {}, "world size is 0, but must be at least 1"},
      {8,
       FSDP2Config{},
       {},
       {.timeout_minutes = 0},
       "timeout_minutes 0 is not a valid time-out; choose 1 to 153722867280912"},
      {8,
       FSDP2Config{},
       {},
       {.ranks = std::vector<int64_t>{}},
       "the list of ranks is empty; list at least 1, or leave it out for the whole world"},
      {8,
       FSDP2Config{},
       {},
       {.ranks = std::vector<int64_t>{0, 8}},
       "rank 8 is outside the world of 8 ranks; choose 0 to 7"},
  };
  for (const auto& [world, config, sizes, options, message] : all) {
    EXPECT_EQ(refusal(world, config, sizes, options), message);
  }
  const std::string twice =
      refusal(8, FSDP2Config{}, {}, {.ranks = std::vector<int64_t>{0, 1, 2, 2}});
  EXPECT_NE(twice.find("rank 2"), std::string::npos) << twice;
}

TEST(NemoPlan, AnUnknownBackEndIsRefused) {
  FSDP2Config config;
  config.backend = "ncl";
  EXPECT_EQ(refusal(8, config, {}),
            "back end 'ncl' is unknown; choose nccl or gloo; did you mean 'nccl'?");
}

TEST(NemoPlan, HugeSizesDoNotOverflow) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const std::string text = refusal(8, FSDP2Config{}, {.dp_size = kHuge, .tp_size = kHuge});
  EXPECT_NE(text.find("64 bits"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera

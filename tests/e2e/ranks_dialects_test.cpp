// `tessera ranks` in the words of each dialect, and from one to another.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/testkit/process.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

Finished ranks(const std::string& arguments) {
  return testkit::run(TESSERA_PROGRAM " ranks " + arguments);
}

json ranks_json(const std::string& arguments) {
  const Finished finished = ranks("--json " + arguments);
  EXPECT_EQ(finished.code, 0) << finished.err;
  return json::parse(finished.out);
}

// The groups of a kind, whatever their order.
std::set<std::set<int>> groups_of(const json& answer, std::string_view name) {
  std::set<std::set<int>> groups;
  for (const json& kind : answer["kinds"]) {
    if (kind["name"] != name) continue;
    for (const json& group : kind["groups"]) groups.insert(group.get<std::set<int>>());
  }
  EXPECT_FALSE(groups.empty()) << name;
  return groups;
}

TEST(RanksDialects, OlmoSpeaksOfMeshDimensions) {
  const json answer = ranks_json(
      "--dialect olmo --world 32 --dp-type hsdp --num-replicas 2 --tp 2 --cp 2 --pp 2 --rank 5");
  EXPECT_EQ(answer["dialect"], "olmo");
  EXPECT_EQ(answer["dp-type"], "hsdp");
  EXPECT_EQ(answer["sizes"],
            json::parse(R"({"pp":2,"dp_replicate":2,"dp_shard":2,"cp":2,"tp":2})"));
  EXPECT_EQ(answer["rank"]["groups"]["dp"], json::parse("[1,5,9,13]"));
  EXPECT_EQ(answer["rank"]["groups"]["dp_cp"], json::parse("[1,3,5,7]"));
}

TEST(RanksDialects, OlmoTakesItsNodesFromTheMachine) {
  const json answer = ranks_json("--dialect olmo --world 32 --dp-type hsdp --gpus-per-node 4");
  EXPECT_EQ(answer["sizes"], json::parse(R"({"dp_replicate":8,"dp_shard":4})"));
  const json shards = ranks_json("--dialect olmo --world 32 --dp-type hsdp --shard-degree 16");
  EXPECT_EQ(shards["sizes"], json::parse(R"({"dp_replicate":2,"dp_shard":16})"));
}

TEST(RanksDialects, NemoHasStrategiesAndTwoMeshesForExperts) {
  const std::string sizes = "--dialect nemo --world 32 --tp-size 2 --pp-size 2 --ep-size 4 ";
  const json document = ranks_json(sizes);
  EXPECT_EQ(document["strategy"], "fsdp2");
  EXPECT_EQ(document["sizes"], json::parse(R"({"pp":2,"dp_replicate":1,"dp_shard":8,"cp":1,"tp":2,
                                               "ep_shard":2,"ep":4})"));
  EXPECT_TRUE(groups_of(document, "ep").contains({0, 2, 4, 6}));
  EXPECT_TRUE(groups_of(ranks_json(sizes + "--moe-mesh today"), "ep").contains({0, 1, 2, 3}));
  const json small = ranks_json("--dialect nemo --world 8 --strategy megatron_fsdp --cp-size 2");
  EXPECT_EQ(small["sizes"], json::parse(R"({"dp":4,"cp":2,"tp":1})"));
  EXPECT_EQ(ranks_json("--dialect nemo --world 8 --strategy ddp")["sizes"],
            json::parse(R"({"dp":8})"));
  EXPECT_EQ(ranks_json("--dialect nemo --world 16 --dp-size 8 --dp-replicate-size 2 --tp-size 2"),
            ranks_json("--dialect nemo --world 16 --dp-replicate-size 2 --tp-size 2"));
}

TEST(RanksDialects, TesseraTakesTheFlagsOfTheTrainer) {
  const json answer = ranks_json(
      "--dialect tessera --world 16 --dp 4 --dp-type hsdp --dp-replicate 2 --pp 2 --tp 2 --rank 5");
  EXPECT_EQ(answer["dialect"], "tessera");
  EXPECT_EQ(answer["dp-type"], "hsdp");
  EXPECT_EQ(answer["sizes"],
            json::parse(R"({"pp":2,"dp_replicate":2,"dp_shard":2,"cp":1,"tp":2})"));
  EXPECT_EQ(answer["rank"]["groups"]["batch"], json::parse("[1,3,5,7]"));
  EXPECT_EQ(answer["rank"]["groups"]["norm"], json::parse("[4,5,6,7,12,13,14,15]"));
  for (const json& kind : answer["kinds"]) EXPECT_GT(kind["size"], 1) << kind["name"];
}

TEST(RanksDialects, AxesOfTheExpertsAreDrawnIfTheyDiffer) {
  const std::string out =
      ranks("--dialect tessera --world 32 --dp-type hsdp --dp-replicate 2 --tp 2 --ep 2 --etp 2")
          .out;
  EXPECT_NE(out.find("experts  pp 1 × expert_replicate 2 × expert_shard 4 × ep 2 × etp 2\n"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("expert_shard: "), std::string::npos) << out;
  EXPECT_NE(out.find(" ep: "), std::string::npos) << out;
  EXPECT_EQ(out.find("expert_replicate: "), std::string::npos) << "as dp_replicate";
  EXPECT_EQ(out.find(" etp: "), std::string::npos) << "as tp";
}

TEST(RanksDialects, MegatronsOptimizerInstancesCutDataParallelGroups) {
  const json answer = ranks_json("--world 16 --tp 2 --num-distributed-optimizer-instances 2");
  EXPECT_TRUE(
      groups_of(answer, "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP").contains({1, 3, 5, 7}));
}

TEST(RanksDialects, EveryDialectHasAnExampleAHelpAndAPicture) {
  for (const std::string dialect : {"megatron", "olmo", "nemo", "tessera"}) {
    const Finished finished = ranks("--dialect " + dialect);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_NE(finished.out.find("This is an example."), std::string::npos) << dialect;
    EXPECT_NE(finished.out.find("tp: "), std::string::npos) << dialect;
    EXPECT_EQ(finished.out.find('\x1b'), std::string::npos) << "colours in a pipe";
    EXPECT_NE(ranks("--help --dialect " + dialect).out.find("Layout, flags of " + dialect),
              std::string::npos);
    const Finished picture = ranks("--dialect " + dialect + " --svg /dev/stdout");
    EXPECT_NE(picture.out.find("</svg>"), std::string::npos) << dialect;
    EXPECT_NE(ranks("--dialect=" + dialect + " --rank 5").out.find("rank 5: node 0, GPU 5"),
              std::string::npos);
  }
}

TEST(RanksDialects, TranslatesWhatCanBeSaid) {
  const Finished finished = ranks("--from megatron --world 64 --tp 8 --pp 2 --to nemo");
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("to    --dialect nemo --world 64 --tp-size 8 --pp-size 2\n"),
            std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find("The same layout"), std::string::npos);
}

TEST(RanksDialects, TranslatesToTheTrainer) {
  const Finished finished = ranks("--world 64 --tp 8 --pp 2 --to tessera");
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("to    --dialect tessera --world 64 --tp 8 --pp 2\n"),
            std::string::npos)
      << finished.out;
  const Finished order = ranks("--world 8 --tp 2 --order dp-tp-cp-ep-pp --to tessera");
  EXPECT_EQ(order.code, 1);
  EXPECT_NE(order.out.find("dp is {0-3} in megatron, {0,2,4,6} in tessera"), std::string::npos)
      << order.out;
}

TEST(RanksDialects, PrintedFlagsGiveTheSameGroups) {
  const std::string from =
      "--dialect nemo --world 64 --tp-size 2 --cp-size 2 --pp-size 4 "
      "--dp-replicate-size 2 ";
  const json answer = ranks_json(from + "--to olmo");
  EXPECT_EQ(answer["same"], true);
  std::string flags = "--dialect olmo --world 64";
  for (const auto& [flag, value] : answer["to"]["flags"].items()) {
    flags += " " + flag + " " + value.get<std::string>();
  }
  const json ours = ranks_json(from);
  const json theirs = ranks_json(flags);
  for (const char* kind : {"dp", "tp", "cp", "pp", "dp_replicate", "dp_shard"}) {
    EXPECT_EQ(groups_of(ours, kind), groups_of(theirs, kind)) << kind;
  }
}

TEST(RanksDialects, TranslatesLargeWorldsAtOnce) {
  for (const char* sizes : {"", "--tp 8 --pp 8 --cp 2 --ep 8"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(ranks(std::string("--world 65536 --to nemo ") + sizes).code, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << sizes;
  }
}

TEST(RanksDialects, SaysWhyWhatCannotBeSaid) {
  const Finished order = ranks("--world 8 --tp 2 --order dp-tp-cp-ep-pp --to olmo");
  EXPECT_EQ(order.code, 1) << "as diff does";
  EXPECT_NE(order.out.find("dp is {0-3} in megatron, {0,2,4,6} in olmo"), std::string::npos)
      << order.out;
  EXPECT_NE(order.out.find("In olmo, its axes are pp, dp, cp and tp"), std::string::npos);

  const Finished experts = ranks("--json --world 8 --tp 2 --ep 2 --to olmo");
  EXPECT_EQ(experts.code, 1);
  const json answer = json::parse(experts.out);
  EXPECT_EQ(answer["same"], false);
  EXPECT_EQ(answer["difference"], json::parse(R"({"kind":"ep","from":[0,2],"to":[0]})"));
  EXPECT_NE(answer["refusal"].get<std::string>().find("exclude each other"), std::string::npos);
  EXPECT_NE(answer["why"].get<std::string>().find("experts"), std::string::npos);
}

TEST(RanksDialects, BadInputNamesTheValueTheRuleAndTheFix) {
  struct Refusal {
    const char* arguments;
    const char* message;
  };
  const std::vector<Refusal> refusals{
      {"--dialect memo", "there is no dialect 'memo'; choose megatron, olmo, nemo, tessera"},
      {"--world 8 --to memo", "did you mean 'nemo'?"},
      {"--dialect olmo --world 8 --tp-size 2", "in olmo it is --tp"},
      {"--dialect nemo --world 8 --tp 2", "in nemo it is --tp-size"},
      {"--world 8 --tp-size 2", "in megatron it is --tensor-model-parallel-size"},
      {"--world 8 --dp-type hsdp", "megatron has no such flag"},
      {"--dialect nemo --world 8 --order tp-dp", "nemo has no such flag: its axes are"},
      {"--dialect olmo --world 8 --tp 3",
       "TensorParallelConfig.degree is 3, which does not divide"},
      {"--dialect olmo --world 8 --ep 2", "set the data parallel type to hsdp"},
      {"--dialect olmo --world 8 --num-replicas 2",
       "--num-replicas needs hsdp, but the type is fsdp"},
      {"--dialect olmo --world 8 --dp-type hspd", "hsdp"},
      {"--dialect olmo --world 8 --dp-type hsdp --num-replicas 3", "does not divide"},
      {"--dialect nemo --world 8 --dp-size 3", "leave dp_size out to infer it"},
      {"--dialect nemo --world 8 --strategy ddp --tp-size 2", "ddp has no tensor parallelism"},
      {"--dialect nemo --world 8 --strategy fsdp", "fsdp2"},
      {"--dialect nemo --world 8 --ep-size 3", "ep_size 3 does not divide"},
      {"--dialect nemo --world 8 --moe-mesh now", "choose document or today"},
      {"--dialect nemo --world 8 --tp-size two", "--tp-size 'two' is not a whole number"},
      {"--dialect nemo --world 8 --dp 2", "--dp is not a flag of nemo; there it is --dp-size"},
      {"--dialect olmo --world 8 --dp 2", "--dp is not a flag of olmo; dp follows"},
      {"--world 8 --dp 2", "from the other sizes: world / (tp·cp·pp)"},
      {"--dialect tessera --world 8 --dp 3", "the product of pp 1, dp 3, cp 1 and tp 1 is 3"},
      {"--dialect tessera --world 8 --dp 0", "dp is 0, but must be at least 1"},
      {"--dialect tessera --world 8 --dp-type fspd", "did you mean 'fsdp'?"},
      {"--dialect tessera --world 8 --dp-replicate 2", "which needs dp-type hsdp"},
      {"--dialect tessera --world 8 --ep 3", "does not divide dp·cp·tp = 8"},
      {"--dialect tessera --world 8 --num-replicas 2", "in tessera it is --dp-replicate"},
      {"--dialect tessera --world 8 --tp-size 2", "in tessera it is --tp"},
      {"--world 8 --tp 2 --tensor-model-parallel-size 2", "is given twice; give it once"},
      {"--dialect olmo --tp 2", "--world is missing"},
      {"--world 8 --to olmo --svg x.svg", "--to prints flags, not ranks; leave --svg out"},
      {"--world 8 --to olmo --rank 3", "leave --rank out"},
      {"--world 1000000 --to olmo", "choose at most 65536"},
  };
  for (const Refusal& refusal : refusals) {
    const Finished finished = ranks(refusal.arguments);
    EXPECT_EQ(finished.code, 2) << refusal.arguments;
    EXPECT_EQ(finished.out, "") << refusal.arguments;
    EXPECT_NE(finished.err.find(refusal.message), std::string::npos) << refusal.arguments << "\n"
                                                                     << finished.err;
  }
}

}  // namespace
}  // namespace tessera

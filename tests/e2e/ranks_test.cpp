// `tessera ranks` as a user runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

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

TEST(Ranks, WithoutArgumentsShowsTheExample) {
  const Finished finished = ranks("");
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_NE(finished.out.find("64 ranks on 8 nodes of 8 GPUs"), std::string::npos);
  EXPECT_NE(finished.out.find("tp: 8 groups of 8, inside a node"), std::string::npos);
  EXPECT_NE(finished.out.find("This is an example."), std::string::npos);
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos) << "no colours where no terminal is";
}

TEST(Ranks, JsonHasItsDocumentedForm) {
  const json answer = ranks_json("--world 64 --tp 8 --pp 2 --rank 37");
  EXPECT_EQ(answer["dialect"], "megatron");
  EXPECT_EQ(answer["world"], 64);
  EXPECT_EQ(answer["order"], "tp-cp-ep-dp-pp");
  EXPECT_EQ(answer["sizes"],
            json::parse(R"({"tp":8,"cp":1,"ep":1,"dp":4,"pp":2,"etp":8,"edp":4})"));
  EXPECT_EQ(answer["kinds"].size(), 17U);
  for (const json& kind : answer["kinds"]) {
    EXPECT_EQ(kind["groups"].size(), kind["count"]) << kind["name"];
    for (const json& group : kind["groups"]) EXPECT_EQ(group.size(), kind["size"]);
  }
  const json& rank = answer["rank"];
  EXPECT_EQ(rank["rank"], 37);
  EXPECT_EQ(rank["coordinate"]["tp"], 5);
  EXPECT_EQ(rank["coordinate"]["pp"], 1);
  EXPECT_EQ(rank["groups"]["PIPELINE_MODEL_PARALLEL_GROUP"], json::parse("[5,37]"));
  EXPECT_FALSE(rank["groups"].contains("POSITION_EMBEDDING_GROUP")) << "it is a last stage";
}

TEST(Ranks, LongAndShortFlagsSayTheSame) {
  EXPECT_EQ(ranks("--world 64 --tp 4 --pp 2 --cp 2 --ep 4 --etp 2").out,
            ranks("--world 64 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 "
                  "--context-parallel-size 2 --expert-model-parallel-size 4 "
                  "--expert-tensor-parallel-size 2 --order tp-cp-ep-dp-pp")
                .out);
}

TEST(Ranks, RankAndKindsAgree) {
  const json answer = ranks_json("--world 48 --tp 2 --cp 2 --pp 3 --ep 2 --etp 1 --rank 29");
  for (const json& kind : answer["kinds"]) {
    for (const json& group : kind["groups"]) {
      const auto members = group.get<std::set<int>>();
      if (members.contains(29)) {
        EXPECT_EQ(answer["rank"]["groups"][kind["name"].get<std::string>()], group);
      }
    }
  }
}

TEST(Ranks, LargeWorldsListNoGroups) {
  EXPECT_TRUE(ranks_json("--world 1024")["kinds"][0].contains("groups"));
  const json answer = ranks_json("--world 1048576 --tp 8 --pp 8 --cp 2 --ep 8 --rank 777777");
  EXPECT_FALSE(answer["kinds"][0].contains("groups"));
  EXPECT_EQ(answer["rank"]["groups"]["TENSOR_MODEL_PARALLEL_GROUP"].size(), 8U);
}

TEST(Ranks, ColoursOnDemand) {
  EXPECT_NE(ranks("--color always").out.find("\x1b[38;5;16;48;5;"), std::string::npos);
}

TEST(Ranks, WritesAPicture) {
  const testkit::TemporaryFolder folder;
  const std::string path = folder.path("grid.svg");
  EXPECT_EQ(ranks("--world 64 --tp 8 --pp 2 --svg " + path).code, 0);
  std::ifstream file(path);
  const std::string svg((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Ranks, WritesAPage) {
  const testkit::TemporaryFolder folder;
  const std::string path = folder.path("page.html");
  const Finished finished =
      ranks("--world 64 --tp 8 --pp 2 --ep 4 --html " + path +
            " --nodes-per-rack 4 --hidden 64 --layers 2 --sequence 32 --micro-batch 2 "
            "--microbatches 3 --experts-per-token 5 --parameters 1000 --expert-parameters 600");
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("page: " + path), std::string::npos);
  std::ifstream file(path);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const size_t begin = page.find("id=\"data\">") + 10;
  const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data["nodes_per_rack"], 4);
  // A W L M X E k; etp is tp.
  const std::vector<double> letters{2 * 2 * 32 * 64, 2.0 * 400 / 16, 1, 3, 2.0 * 600 / 64, 1, 5};
  for (size_t i = 0; i < letters.size(); ++i) EXPECT_EQ(data["symbols"][i]["value"], letters[i]);
}

TEST(Ranks, ShowASequenceOverTheRanksOfACpGroup) {
  const std::string flags = "--world 8 --cp 2 --documents 4,12 --cp-layout per-document";
  const std::string text = ranks(flags).out;
  EXPECT_NE(text.find("cp 0  █··████······███"), std::string::npos) << text;
  EXPECT_NE(text.find("all ranks compute 44 pairs of causal attention"), std::string::npos);
  const json sequence = ranks_json(flags)["sequence"];
  EXPECT_EQ(sequence["causal_pairs"], json({44, 44}));
  EXPECT_EQ(sequence["ranks"][1], json({{1, 3}, {7, 13}}));
  EXPECT_FALSE(ranks_json("--world 8 --cp 2").contains("sequence"));
}

TEST(Ranks, BadInputNamesTheValueTheRuleAndTheFix) {
  struct Refusal {
    const char* arguments;
    int code;
    const char* message;
  };
  const std::vector<Refusal> refusals{
      {"--world 12 --tp 2 --pp 4", 2, "nearest world sizes: 8, 16"},
      {"--world 8 --tp 0", 2, "the size of tp is 0, but must be at least 1"},
      {"--tp 2", 2, "--world is missing"},
      {"--world 8 --rank 8", 2, "--rank 8 is outside the world; choose 0 to 7"},
      {"--world 8 --rank -1", 2, "--rank -1 is outside the world"},
      {"--world 8 --order tp-dq", 2, "unknown entry 'dq'"},
      {"--world 8 --gpus-per-node 0", 2, "--gpus-per-node 0 is not positive"},
      {"--world 8 --tp 99999999999 --pp 99999999999", 2, "overflows 64 bits"},
      {"--world 9223372036854775807", 2, "too large to be shown; choose at most 16777216"},
      {"--world 99999999999999999999", 2, "is not a whole number of 64 bits"},
      {"--world eight", 2, "--world 'eight' is not a whole number"},
      {"--world ''", 2, "--world '' is not a whole number"},
      {"--svg ''", 1, "cannot write"},
      {"--wolrd 8", 2, "did you mean '--world'?"},
      {"--world 8192 --svg x.svg", 2, "--svg draws worlds of up to 1024"},
      {"--world 8 --dp 2", 2, "dp follows from the other sizes: world / (tp·cp·pp)"},
      {"--world 8 --svg /no/such/folder/x.svg", 1, "cannot write /no/such/folder/x.svg"},
      {"--world 8 --html /no/such/folder/x.html", 1, "cannot write /no/such/folder/x.html"},
      {"--world 8192 --html x.html", 2, "--html explains worlds of up to 4096"},
      {"--world 8 --html x.html --hidden 64 --sequence 8", 2, "--layers is missing"},
      {"--world 8 --hidden 64", 2, "add --html FILE"},
      {"--world 8 --html x.html --hidden 0 --layers 2 --sequence 8", 2,
       "--hidden is 0, but must be at least 1"},
      {"--world 8 --pp 8 --html x.html --hidden 8 --layers 4 --sequence 8", 2,
       "--layers 4 are too few for 8 pipeline stages; give at least 8"},
      {"--world 8 --cp 2 --sequence 10", 2,
       "is not a multiple of 2·cp = 4; nearest legal lengths: 8, 12"},
      {"--world 8 --cp 2 --cp-layout zigzag", 2, "cp-layout is 'zigzag'; choose head-tail, "},
      {"--world 8 --cp 2 --documents 4,x", 2, "--documents 'x' is not a whole number"},
      {"--world 8 --cp 2 --documents 4,0", 2, "a document has 0 positions"},
      {"--world 8 --cp 2 --documents 4,4 --sequence 12", 2, "have 8 tokens, but --sequence is 12"},
      {"--world 8 --sequence 16", 2, "but cp is 1; raise it, or leave them out"},
      {"--world 8 --nodes-per-rack 2", 2, "--nodes-per-rack is for the page; add --html FILE"},
      {"--world 8 --html x.html --nodes-per-rack 0", 2, "--nodes-per-rack 0 is not positive"},
  };
  for (const Refusal& refusal : refusals) {
    const Finished finished = ranks(refusal.arguments);
    EXPECT_EQ(finished.code, refusal.code) << refusal.arguments;
    EXPECT_EQ(finished.out, "") << refusal.arguments;
    EXPECT_NE(finished.err.find(refusal.message), std::string::npos) << refusal.arguments << "\n"
                                                                     << finished.err;
  }
}

TEST(Ranks, WhatIsRefusedLeavesNoFile) {
  const testkit::TemporaryFolder folder;
  const std::string path = folder.path("refused.svg");
  EXPECT_EQ(ranks("--world 2048 --html x.html --svg " + path).code, 2);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Ranks, NodesLargerThanTheWorld) {
  const Finished finished = ranks("--world 8 --gpus-per-node 9223372036854775807");
  EXPECT_NE(finished.out.find("8 ranks on 1 node of"), std::string::npos) << finished.out;
}

TEST(Ranks, OutputThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(testkit::run(TESSERA_PROGRAM " ranks --json >/dev/full").code, 1);
}

TEST(Tessera, HelpVersionAndUnknownVerbs) {
  EXPECT_NE(testkit::run(TESSERA_PROGRAM " --help").out.find("ranks"), std::string::npos);
  EXPECT_TRUE(testkit::run(TESSERA_PROGRAM " --version").out.starts_with("tessera "));
  EXPECT_NE(ranks("--help").out.find("Usage: tessera ranks"), std::string::npos);
  EXPECT_EQ(testkit::run(TESSERA_PROGRAM).code, 2);
  const Finished finished = testkit::run(TESSERA_PROGRAM " rnaks");
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.err.find("did you mean 'ranks'?"), std::string::npos);
}

TEST(Tessera, ItselfShowsNoTorch) {
  const Finished finished = testkit::run("ldd " TESSERA_PROGRAM);
  EXPECT_EQ(finished.code, 0);
  EXPECT_NE(finished.out.find("libc.so"), std::string::npos);
  EXPECT_EQ(finished.out.find("torch"), std::string::npos) << finished.out;
}

#ifdef TESSERA_HAS_TORCH
TEST(Tessera, EnvRunsInTheTorchProgram) {
  const Finished finished = testkit::run(TESSERA_PROGRAM " env");
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("libtorch 2."), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("gloo"), std::string::npos) << finished.out;
  EXPECT_EQ(testkit::run(TESSERA_PROGRAM " env --nvo").code, 2);
}
#endif

}  // namespace
}  // namespace tessera

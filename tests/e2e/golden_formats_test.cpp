// What the formats of the golden tables allow and the tables at hand do not hold.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

#ifdef TESSERA_HAS_TORCH
namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

json table(const std::string& name) {
  return json::parse(std::ifstream(std::filesystem::path(TESSERA_GOLDEN_DIR) / (name + ".json")));
}

Finished check(const std::string& name, const json& content) {
  const testkit::TemporaryFolder folder;
  return testkit::run(TESSERA_GOLDEN_CHECK " " + folder.file(name + ".json", content.dump()));
}

// A life cycle of these steps, each without an answer, on rank 0 of a world of 2.
json life_of(const json& ops) {
  json steps = json::array();
  const auto add = [&](const json& op) { steps.push_back({{"op", op}, {"result", nullptr}}); };
  add({"init_dist", 0, 2});
  for (const json& op : ops) add(op);
  json life{{"id", "life7"}, {"steps", steps}};
  return {{"group_getters", json::array()},
          {"value_getters", json::array()},
          {"lifecycle", json::array({life})}};
}

void expect_unknown(const std::string& name, const json& content, const std::string& message) {
  const Finished finished = check(name, content);
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.out.find(name + message), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find(name + ": 0 passed, 1 failed"), std::string::npos) << finished.out;
}

TEST(GoldenFormats, WhatIsNotKnownIsAnErrorOfItsOwn) {
  const auto in_life = [](const json& op, const std::string& what) {
    expect_unknown("megatron_groups", life_of(json::array({op})),
                   " life7: golden_check does not know the " + what + "\n");
  };
  in_life({"rename", 1}, "operation 'rename'");
  in_life({"value", "get_colour"}, "getter 'get_colour'");
  in_life({"value", "is_initialized", {{"flag", true}}}, "argument 'flag'");
  in_life({"update_pg_timeout", 30, "get_colour"}, "getter of a group 'get_colour'");
  in_life({"call", "set_colour", 3}, "setter 'set_colour'");
  in_life({"call", "paint"}, "function 'paint'");
  in_life({"init", {{"get_embedding_ranks", "some"}}}, "callback 'some'");
  for (const char* kind : {"shard", "collectives"}) {
    const json layer{{"id", "x"}, {"kind", kind}, {"layer", "diagonal"}, {"tp", 1}};
    expect_unknown("tensor_parallel", {{"cases", json::array({layer})}},
                   " x: golden_check does not know the layer 'diagonal'\n");
  }
  expect_unknown("tensor_parallel", {{"cases", {{{"id", "x"}, {"kind", "paint"}}}}},
                 " x: golden_check does not know the kind of case 'paint'\n");
  json sub{{"id", "sub"}, {"kind", "expert_parallel_mesh"}, {"world_size", 2}};
  sub["ep"]["degree"] = 2;
  sub["result"]["sub"]["get_colour_mesh"] = json::object();
  expect_unknown("olmo_mesh", {{"cases", json::array({sub})}},
                 " sub: golden_check does not know the accessor 'get_colour_mesh'\n");
}

// Every getter and setter of Megatron's page is in the registry.
TEST(GoldenFormats, KnowsMegatronsWholePage) {
  json ops = json::array({{"init", json::object()}});
  const json names = table("seed_names").at("megatron/parallel_state");
  for (const std::string name : names) {
    const bool is_getter = name != "get_nccl_options" && name != "get_mask" && name != "get_ranks";
    if (is_getter && (name.starts_with("get_") || name.starts_with("is_"))) {
      ops.push_back({"value", name});
    }
    if (name.starts_with("set_")) ops.push_back({"call", name, nullptr});
    if (name.starts_with("_set_")) ops.push_back({"call", name});
    if (name.ends_with("_group") && name.starts_with("get_")) {
      ops.push_back({"update_pg_timeout", 60, name});
    }
  }
  ASSERT_GT(ops.size(), 80U);
  const Finished finished = check("megatron_groups", life_of(ops));
  EXPECT_EQ(finished.code, 1) << "the answers are made up";
  EXPECT_EQ(finished.out.find("does not know"), std::string::npos) << finished.out;
}

// The case passes by this rule.
void expect_decided(const std::string& name, const json& content, const std::string& rule) {
  const Finished finished = check(name, content);
  EXPECT_EQ(finished.code, 0) << finished.out;
  EXPECT_NE(finished.out.find(" × " + rule), std::string::npos) << finished.out;
}

TEST(GoldenFormats, SpansAreJudgedAlikeOnRealRanks) {
  json flat = table("olmo_flat_collectives")["cases"][1];
  const auto with_offsets = [&](const char* offsets) {
    flat["offsets"] = json::parse(offsets);
    return json{{"cases", json::array({flat})}};
  };
  expect_decided("olmo_flat_collectives", with_offsets("[[[0, 3]], [[0, 3]]]"),
                 "spans that overlap");
  expect_decided("olmo_flat_collectives", with_offsets("[[[0, 3]], [[3, 5]], [[5, 6]]]"),
                 "sharding spec for another number");
}

TEST(GoldenFormats, RulesHoldForLargeWorlds) {
  json large = table("megatron_groups");
  large["configs"] = large["lifecycle"] = json::array();
  large["large"] = json::array({large["large"][0]});
  json& arguments = large["large"][0]["args"];
  arguments["nccl_yaml"] = "no_such_section: {max_ctas: 3}\n";
  expect_decided("megatron_groups", large, "unknown NCCL section");
  arguments["nccl_yaml"] = "tp: {}\npp: {is_high_priority_stream: false}\n";
  EXPECT_EQ(check("megatron_groups", large).code, 0) << "default options are none";
}

TEST(GoldenFormats, ARefusalLeavesTheWorldThatWasThere) {
  json refused = table("olmo_utils")["init_distributed"][4];
  ASSERT_TRUE(refused["result"].contains("error"));
  refused["pre_initialized_backend"] = "fake";
  expect_decided("olmo_utils", {{"init_distributed", json::array({refused})}},
                 "state after a refused");
}

TEST(GoldenFormats, UnknownNcclNamesAreLeftOutOfEveryStep) {
  json life = life_of({{"overwrite", {{"zz", {{"max_ctas", 1}}}}, "tp", {"max_ctas", 4}},
                       {"overwrite", json::object(), "zz", {"max_ctas", 4}},
                       {"overwrite", {{"dp", json::object()}}, "tp", {"net_name", "IB"}},
                       {"nccl_options", "tp", {{"zz", json::object()}, {"tp", {{"qq", 1}}}}}});
  json& steps = life["lifecycle"][0]["steps"];
  steps[1]["result"] = json::parse(R"({"zz": {"max_ctas": 1}, "tp": {"max_ctas": 4}})");
  steps[2]["result"] = json::parse(R"({"zz": {"max_ctas": 4}})");
  steps[3]["result"] = json::parse(R"({"dp": {}, "tp": {"net_name": "IB"}})");
  steps[4]["result"] = json::parse(R"({"is_high_priority_stream": false})");
  expect_decided("megatron_groups", life, "unknown NCCL section");
  steps[1]["result"]["tp"]["max_ctas"] = 5;
  EXPECT_EQ(check("megatron_groups", life).code, 1);
}

#ifdef TESSERA_HAS_TEXT
TEST(GoldenFormats, TokenizersMayBeWrongToo) {
  json tokens = table("tokenizer");
  json one = tokens["cases"][1];
  tokens["decode"] = json::array();
  tokens["cases"] = json::array({one});
  EXPECT_EQ(check("tokenizer", tokens).code, 0);
  tokens["tokenizers"]["llama3"]["added_tokens"][0]["id"] = 9;
  expect_decided("tokenizer", tokens, "added token whose id is not the one that it gets");
  one["id"] = "x";
  one["expect"] = {{"gpt9", {{"ids", {1}}}}};
  tokens["cases"] = json::array({one});
  expect_unknown("tokenizer", tokens, " x: golden_check does not know the tokenizer 'gpt9'\n");
}
#endif

}  // namespace
}  // namespace tessera
#endif

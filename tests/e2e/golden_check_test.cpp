// golden_check itself: it must find what is wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/testkit/process.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

class GoldenCheck : public testing::Test {
 protected:
  GoldenCheck() {
    std::string folder = (fs::temp_directory_path() / "golden-XXXXXX").string();
    folder_ = mkdtemp(folder.data());
  }
  ~GoldenCheck() override { fs::remove_all(folder_); }

  static json table(const std::string& name) {
    return json::parse(std::ifstream(fs::path(TESSERA_GOLDEN_DIR) / name));
  }

  // Checks the content as a file of this name.
  Finished check(const std::string& name, const json& content, const std::string& flags = "") {
    std::ofstream(folder_ / name) << content;
    return testkit::run(TESSERA_GOLDEN_CHECK " " + flags + " " + (folder_ / name).string());
  }

  fs::path folder_;
};

TEST_F(GoldenCheck, CountsWhatPassedUnderTheNameUpToTheFirstDot) {
  const Finished finished = check("rank_generator.other.json", table("rank_generator.json"));
  EXPECT_EQ(finished.code, 0) << finished.out;
  EXPECT_NE(finished.out.find("rank_generator: 171 passed, 0 failed\n"), std::string::npos);
  EXPECT_NE(finished.out.find("deviations: 4\n"), std::string::npos);
}

TEST_F(GoldenCheck, OneChangedNumberFails) {
  json changed = table("rank_generator.json");
  changed["cases"][1]["groups"][0][1] = 3;
  const Finished finished = check("rank_generator.json", changed);
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.out.find("rank_generator d001:"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("at /groups/0/1"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("rank_generator: 170 passed, 1 failed"), std::string::npos);
}

TEST_F(GoldenCheck, OneChangedNumberOfEachPartFails) {
  const json content = table("rank_generator.json");
  std::set<std::string> done;
  for (const json& one : content["cases"]) {
    json changed = one;
    if (one.contains("error") || done.contains(one["kind"])) continue;
    if (one["kind"] == "rank_generator_hash") {
      changed["fnv1a64"] = "0000000000000000";
    } else if (one.contains("created")) {
      changed["created"].push_back({{"name", "X"}, {"ranks", {0}}});
    } else {
      changed["groups"].push_back({0});
    }
    // A case that a rule answers has no expected number to change.
    const Finished as_is = check("rank_generator.json", {{"cases", {one}}});
    if (as_is.out.find("deviations: 0") == std::string::npos) continue;
    ASSERT_EQ(check("rank_generator.json", {{"cases", {changed}}}).code, 1) << one["id"];
    done.insert(one["kind"]);
  }
  EXPECT_EQ(done.size(), 5U);
}

TEST_F(GoldenCheck, ARefusalThatDoesNotComeFails) {
  json changed = table("rank_generator.json")["cases"][1];
  changed["error"] = "RuntimeError";
  EXPECT_EQ(check("rank_generator.json", {{"cases", {changed}}}).code, 1);
}

// Inputs that the table does not hold but others of its form may: the rules decide, nothing
// crashes.
TEST_F(GoldenCheck, RulesCoverKindsOfInputNotCases) {
  json hybrid{
      {"kind", "hybrid"}, {"id", "x"}, {"rank", 5}, {"world", 8}, {"created", json::array()}};
  hybrid["returned"] = json::object();
  hybrid["ranks"] = {0, 0};
  EXPECT_EQ(check("rank_generator.json", {{"cases", {hybrid}}}).code, 0) << "repeated ranks";
  hybrid["ranks"] = {0, 9};
  EXPECT_EQ(check("rank_generator.json", {{"cases", {hybrid}}}).code, 0) << "outside the world";
  hybrid["ranks"] = json::array();
  hybrid["error"] = "ValueError";
  EXPECT_EQ(check("rank_generator.json", {{"cases", {hybrid}}}).code, 0) << "no ranks at all";
  json hierarchy = table("rank_generator.json")["cases"][60];
  ASSERT_EQ(hierarchy["kind"], "hierarchical");
  hierarchy["pg_options"] = {nullptr, nullptr, "A"};
  EXPECT_EQ(check("rank_generator.json", {{"cases", {hierarchy}}}).code, 0) << "too many options";
  hierarchy["pg_options"] = json::array();
  EXPECT_EQ(check("rank_generator.json", {{"cases", {hierarchy}}}).code, 1) << "too few options";
}

TEST_F(GoldenCheck, PartsWithoutCodeCountAsFailedUnlessLeftOut) {
  const json content = table("olmo_tensors.json");
  EXPECT_EQ(check("olmo_tensors.json", content, "--part local_shape_and_offset").code, 0);
  const Finished whole = check("olmo_tensors.json", content);
#ifdef TESSERA_HAS_TORCH
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_NE(whole.out.find("olmo_tensors: 68 passed, 0 failed"), std::string::npos) << whole.out;
#else
  EXPECT_EQ(whole.code, 1);
  EXPECT_NE(whole.out.find("olmo_tensors: 36 passed, 32 failed"), std::string::npos);
#endif
}

#ifdef TESSERA_HAS_TORCH
TEST_F(GoldenCheck, OneChangedNumberOfATensorFails) {
  const auto fails = [&](const std::string& file, const char* at, const json& value) {
    json changed = table(file);
    const json::json_pointer pointer(at);
    ASSERT_TRUE(changed.contains(pointer)) << at;
    changed[pointer] = value;
    const Finished finished = check(file, changed);
    EXPECT_EQ(finished.code, 1) << file << at;
    EXPECT_NE(finished.out.find(" 1 failed"), std::string::npos) << finished.out;
  };
  fails("olmo_tensors.json", "/sharded_flat/0/result/shard_of_rank/1/0", 9);
  fails("olmo_flat_collectives.json", "/cases/0/result/gather/1/data/2", 9);
  fails("dtensor.json", "/cases/6/expect/ranks/2/values/0", 99);
  fails("dtensor.json", "/cases/36/expect/grad/1/values/0", 99);
}
#endif

// One configuration of the table, changed.
json megatron_table(const json& configuration) {
  return {{"configs", {configuration}}};
}

TEST_F(GoldenCheck, MegatronsPlansPass) {
  const json content = table("megatron_groups.json");
  const Finished plans = check("megatron_groups.json", content, "--part plan");
  EXPECT_EQ(plans.code, 0) << plans.out;
  EXPECT_NE(plans.out.find("megatron_groups: 143 passed, 0 failed"), std::string::npos);
  EXPECT_NE(plans.out.find("deviations: 6\n"), std::string::npos) << plans.out;
}

#ifdef TESSERA_HAS_TORCH
TEST_F(GoldenCheck, MegatronsAnswersPass) {
  const Finished whole = check("megatron_groups.json", table("megatron_groups.json"));
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_NE(whole.out.find("megatron_groups: 305 passed, 0 failed"), std::string::npos);
  EXPECT_NE(whole.out.find("deviations: 35\n"), std::string::npos) << whole.out;
}

TEST_F(GoldenCheck, OneChangeInMegatronsAnswersFails) {
  const json content = table("megatron_groups.json");
  const auto fails = [&](const char* kind, const char* at, const json& value) {
    json changed = content;
    for (const char* other : {"configs", "large", "lifecycle"}) {
      if (std::string(other) != kind) changed.erase(other);
    }
    const json::json_pointer pointer(at);
    ASSERT_TRUE(changed.at(kind).contains(pointer)) << at;
    changed[kind][pointer] = value;
    EXPECT_EQ(check("megatron_groups.json", changed).code, 1) << kind << at;
  };
  fails("configs", "/61/ranks/3/g/0", 0);
  fails("configs", "/61/ranks/3/g/0", "!AssertionError");
  fails("configs", "/61/ranks/3/v/5", 77);
  fails("configs", "/69/ranks/0/env_after/UCX_TLS", "X");
  fails("large", "/0/ranks/170/g/2", 0);
  fails("large", "/0/ranks/170/v/16/0", 0);
  fails("lifecycle", "/4/steps/1/result/new_groups", 1);       // Of an initialisation.
  fails("lifecycle", "/5/steps/37/result", 1);                 // An override's.
  fails("lifecycle", "/14/steps/2/result/5/group", 99);        // Who waits longer.
  fails("lifecycle", "/15/steps/3/result/list_len", 4);        // Groups made by hand.
  fails("lifecycle", "/18/steps/3/result/reallocated", true);  // A buffer.
}
#endif

TEST_F(GoldenCheck, OneChangeInMegatronsGroupsFails) {
  const json content = table("megatron_groups.json");
  const json& whole = content["configs"][61];  // Has every kind of field.
  for (const json& change :
       {json{{"name", "X"}}, json{{"ranks", {0, 7}}}, json{{"opts", "X"}}, json{{"backend", "mpi"}},
        json{{"timeout_s", 1}}, json{{"collnet", "1"}}}) {
    json changed = whole;
    changed["groups"][3].update(change);
    EXPECT_EQ(check("megatron_groups.json", megatron_table(changed), "--part plan").code, 1)
        << change;
  }
  json swapped = whole;
  std::swap(swapped["groups"][0], swapped["groups"][1]);
  EXPECT_EQ(check("megatron_groups.json", megatron_table(swapped), "--part plan").code, 1);
  json large = content["large"][0];
  large["sequence_fnv1a64"] = "0000000000000000";
  EXPECT_EQ(check("megatron_groups.json", {{"large", {large}}}, "--part plan").code, 1);
  json unknown = content["configs"][0];
  unknown["args"]["new_argument"] = 1;
  EXPECT_EQ(check("megatron_groups.json", megatron_table(unknown), "--part plan").code, 1);
}

// Inputs that the table does not hold but others of its form may.
TEST_F(GoldenCheck, RulesOfMegatronsGroupsCoverKindsOfInput) {
  const auto passes = [&](const json& arguments) {
    json one = table("megatron_groups.json")["configs"][11];
    ASSERT_EQ(one["world"], 8);
    one["args"] = arguments;
    EXPECT_EQ(check("megatron_groups.json", megatron_table(one), "--part plan").code, 0)
        << arguments;
  };
  passes(json::object());
  passes({{"num_distributed_optimizer_instances", -1}});
  passes({{"distributed_timeout_minutes", 0}});
  passes({{"order", "tp-tp-cp-ep-dp-pp"}});
  passes({{"high_priority_stream_groups", {"no_such_group"}}});
  passes({{"nccl_yaml", "tp:\n  nothing: [known]\nqq: 3\n"}});
  passes({{"nccl_yaml", "inter_ep_dp: {net_name: efa}"}});
  passes({{"nccl_yaml", "hcp:\n"}});
}

TEST_F(GoldenCheck, RefusesWhatIsNoTable) {
  EXPECT_EQ(check("rank_generatr.json", {{"cases", {1}}}).code, 2);
  EXPECT_EQ(check("rank_generator.json", {{"cases", json::array()}}).code, 2);
  EXPECT_EQ(check("rank_generator.json", {{"kases", {1}}}).code, 2);
  EXPECT_EQ(check("rank_generator.json", table("rank_generator.json"), "--part masks").code, 2);
  EXPECT_EQ(check("rank_generator.json", {{"cases", {{{"kind", "new"}, {"id", "x"}}}}}).code, 1);
  EXPECT_EQ(check("rank_generator.json", {{"cases", {{{"id", 7}}}}}).code, 1) << "no kind";
  EXPECT_EQ(check("olmo_tensors.json", {{"brand_new_part", {{{"id", "x"}}}}}).code, 1);
  EXPECT_EQ(testkit::run(TESSERA_GOLDEN_CHECK).code, 2);
  EXPECT_EQ(testkit::run(TESSERA_GOLDEN_CHECK " rank_generator.missing.json").code, 1);
}

}  // namespace
}  // namespace tessera

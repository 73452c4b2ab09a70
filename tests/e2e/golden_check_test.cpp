// golden_check itself: it must find what is wrong.
#include <gtest/gtest.h>

#include <set>

#include "tests/e2e/golden_fixture.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

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

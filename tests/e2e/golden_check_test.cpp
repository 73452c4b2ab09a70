// golden_check itself: it must find what is wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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
  for (const json& one : table("rank_generator.json")["cases"]) {
    json changed = one;
    if (one.contains("error")) continue;
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
  }
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
  EXPECT_EQ(whole.code, 1);
  EXPECT_NE(whole.out.find("olmo_tensors: 36 passed, 32 failed"), std::string::npos);
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

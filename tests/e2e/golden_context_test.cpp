// The checks of context_balance: which kinds of input its rules cover, and that wrong answers fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

class GoldenContext : public testing::Test {
 protected:
  const json table_ = json::parse(
      std::ifstream(std::filesystem::path(TESSERA_GOLDEN_DIR) / "context_balance.json"));

  Finished check(const json& content) {
    return testkit::run(TESSERA_GOLDEN_CHECK " " +
                        folder_.file("context_balance.json", content.dump()));
  }
  json case_of(const std::string& id) const {
    return *std::ranges::find_if(table_["cases"], [&](const json& one) { return one["id"] == id; });
  }
  Finished check_case(const std::string& id, const json& change) {
    json one = case_of(id);
    one.update(change);
    return check({{"cases", json::array({one})}});
  }
  // Passes by this rule, or without one if it is empty.
  void passes(const std::string& id, const json& change, const std::string& rule) {
    const Finished finished = check_case(id, change);
    EXPECT_EQ(finished.code, 0) << finished.out;
    EXPECT_NE(finished.out.find(rule.empty() ? "deviations: 0" : " × " + rule), std::string::npos)
        << finished.out;
  }
  void fails(const std::string& id, const std::string& at, const json& value) {
    json one = case_of(id);
    one[json::json_pointer(at)] = value;
    EXPECT_EQ(check({{"cases", json::array({one})}}).code, 1) << id << " " << at;
  }

 private:
  const testkit::TemporaryFolder folder_;
};

const json kError{{"error", {{"type", "ValueError"}}}};

TEST_F(GoldenContext, TheTablePasses) {
  const Finished finished = check(table_);
  EXPECT_EQ(finished.code, 0) << finished.out;
  EXPECT_NE(finished.out.find("context_balance: 88 passed, 0 failed"), std::string::npos);
  EXPECT_NE(finished.out.find("deviations: 14\n"), std::string::npos) << finished.out;
}

TEST_F(GoldenContext, OneChangeFails) {
  fails("d000", "/expect/ranks/0/1/0", 5);
  fails("d000", "/expect/restore/1/0", 5);
  fails("d000", "/expect", kError);
  fails("d007", "/seq_len", 16);
  fails("d010", "/expect/balanced", true);
  fails("d016", "/expect/rows/0/causal_work/1", 67);
  fails("d024", "/expect/sums/0", 46);
  fails("d029", "/expect/process_time/3", 5);
  fails("d030", "/window", 10);
  fails("d034", "/pad", false);
  fails("d036", "/length_multiple", 12);
  fails("d042", "/expect/ranks/1/cu_doc_lens/3", 17);
  fails("d051", "/expect/ranks/2/local_k_slice/0", 5);
  fails("d051", "/expect/ranks/3/max_doc_len_k", 6);
  fails("d065", "/expect/ranks/0/max_doc_len", 5);
  fails("d069", "/expect/kv_heads/3/0/0", 2);
  fails("d073", "/expect/ranks/3/0/1", 6);
  fails("d079", "/expect/ranks/0/valid_cu/tail/3", 4);
  fails("d079", "/expect/ranks/0/rope_positions/2/0", 4);
  fails("d081", "/expect/before_attention/1", 1);
  fails("d084", "/ulysses", 1);
  fails("d086", "/layout", "basic");
}

// Inputs that the table does not hold but others of its form may.
TEST_F(GoldenContext, RulesCoverKindsOfInput) {
  passes("d000", {{"seq_len", 0}}, "size below one");
  passes("d000", {{"degree", 0}, {"expect", kError}}, "");
  passes("d001", {{"seq_len", 5}, {"expect", kError}}, "sequence on one context-parallel rank");
  passes("d009",
         {{"degree", 1}, {"seq_len", 7}, {"expect", {{"balanced", false}, {"ranks", {{{0, 7}}}}}}},
         "sequence on one context-parallel rank");
  passes("d016", {{"degree", 1}, {"doc_lens", {{3, 2}}}, {"expect", kError}},
         "sequence on one context-parallel rank");
  passes("d017", {{"doc_lens", {{4, 12}, {4, 8}}}, {"expect", kError}}, "");
  passes("d017", {{"doc_lens", {{0, 12}}}}, "document without positions");
  passes("d022", {{"doc_lens", {{6, 9}}}}, "");
  passes("d024", {{"process_time", json::array()}}, "size below one");
  passes("d029", {{"block", 5}}, "sequence that is no multiple of the block");
  passes("d029", {{"degree", 3}, {"expect", kError}}, "");
  passes("d040", {{"doc_lens", {8, 0, 4}}}, "document without positions");
  passes("d055", {{"pad", false}, {"expect", {{"ranks", json::array()}}}}, "llama3 documents");
  passes("d056", {{"expect", kError}}, "llama3 documents that need padding");
  passes("d070", {{"seq_len", 18}}, "");
  passes("d068", {{"heads", 6}, {"kv_heads", 4}}, "query heads that are no multiple");
  passes("d068", {{"kv_heads", 1}, {"expect", kError}}, "fewer key-value heads");
  passes("d083", {{"seq_len", 18}}, "sequence that does not divide");
  passes("d083", {{"ulysses", 0}}, "size below one");
  EXPECT_EQ(check_case("d070", {{"kv_heads", 4}}).code, 1) << "it is legal";
}

TEST_F(GoldenContext, UnknownNamesAreErrorsOfTheirOwn) {
  for (const auto& [id, field, what] : {std::tuple{"d029", "mask", "mask"},
                                        {"d083", "layout", "layout"},
                                        {"d000", "kind", "kind of case"}}) {
    const Finished finished = check_case(id, {{field, "paint"}});
    EXPECT_EQ(finished.code, 1);
    EXPECT_NE(finished.out.find(std::string("does not know the ") + what + " 'paint'"),
              std::string::npos)
        << finished.out;
  }
}

}  // namespace
}  // namespace tessera

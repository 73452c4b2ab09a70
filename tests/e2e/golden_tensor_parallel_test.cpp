// golden_check on tensor parallelism: it must find what is wrong.
#include <gtest/gtest.h>

#include "tests/e2e/golden_fixture.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

TEST_F(GoldenCheck, TensorParallelPlansPass) {
  const Finished plans =
      check("tensor_parallel.json", table("tensor_parallel.json"), "--part plan");
  EXPECT_EQ(plans.code, 0) << plans.out;
  EXPECT_NE(plans.out.find("tensor_parallel: 44 passed, 0 failed"), std::string::npos) << plans.out;
  EXPECT_NE(plans.out.find("deviations: 3\n"), std::string::npos) << plans.out;
}

TEST_F(GoldenCheck, OneChangeInTensorParallelPlansFails) {
  const json error{{"error", {{"type", "AssertionError"}}}};
  expect_each_fails("tensor_parallel.json",
                    {{"d001", "/expect/ranks/7/1", 32001},
                     {"d001", "/expect", error},
                     {"d005", "/vocab", 50256},
                     {"d007", "/expect/range/0", 97},
                     {"d010", "/expect/calculate_padded_vocab_size", 50304},
                     {"d010", "/expect/vocab_size_with_padding", 50304},
                     {"d022", "/expect/quotient", 2},
                     {"d034", "/expect/ranks/1/rows/1/0", 5},
                     {"d032", "/expect/ranks/0/columns/0/1", 2},
                     {"d032", "/expect/ranks/1/bias_is_tensor_parallel", false},
                     {"d036", "/expect/ranks/1/bias_is_tensor_parallel", true},
                     {"d037", "/expect/ranks/3/bias_sequence_parallel", false},
                     {"d033", "/expect/ranks/0/partition_stride", 1},
                     {"d036", "/expect/ranks/0/partition_dim", 0},
                     {"d039", "/expect/ranks/2/vocab/0", 4},
                     {"d043", "/expect/ranks/2/kv_heads/0", 0},
                     {"d043", "/expect/ranks/2/q_heads/1", 6},
                     {"d043", "/expect/ranks/2/qkv_rows/0", 18},
                     {"d043", "/expect/ranks/2/proj_weight/1", 8},
                     {"d042", "/expect/ranks/0/gathers_qkv", true},
                     {"d048", "/tp", 4}},
                    "--part plan");
}

// Inputs that the table does not hold but others of its form may.
TEST_F(GoldenCheck, RulesOfTensorParallelCoverKindsOfInput) {
  const json content = table("tensor_parallel.json");
  const auto check_case = [&](const std::string& id, const json& change) {
    json one = case_of(content, id);
    one.update(change);
    return check("tensor_parallel.json", {{"cases", {one}}}, "--part plan");
  };
  const auto passes = [&](const std::string& id, const json& change, const std::string& rule) {
    const Finished finished = check_case(id, change);
    EXPECT_EQ(finished.code, 0) << finished.out;
    EXPECT_EQ(finished.out.find(" × " + rule) != std::string::npos, !rule.empty()) << finished.out;
  };
  const json error{{"error", {{"type", "ValueError"}}}};
  passes("d001", {{"vocab", 0}}, "size below one");
  passes("d001", {{"tp", -2}, {"expect", {{"ranks", json::array()}}}}, "size below one");
  passes("d001", {{"tp", 0}, {"expect", error}}, "");
  passes("d007", {{"rank", -1}}, "rank outside the tensor-parallel group");
  passes("d007", {{"per_partition", 0}}, "size below one");
  passes("d010", {{"tp", 0}, {"expect", {{"calculate_padded_vocab_size", error}}}}, "");
  passes("d019", {{"denominator", -3}, {"expect", {{"quotient", -4}}}}, "");
  passes("d033", {{"stride", 3}, {"expect", error}}, "");
  passes("d033", {{"outputs", 0}}, "size below one");
  passes("d037", {{"tp", 1}, {"expect", error}}, "sequence parallel on one rank");
  passes("d041", {{"kv_heads", nullptr}}, "");
  passes("d041", {{"kv_heads", 3}}, "query heads that are no multiple");
  passes("d047", {{"tp", 8}, {"expect", error}}, "");
  EXPECT_EQ(check_case("d047", {{"tp", 2}, {"expect", error}}).code, 1) << "it is legal";
  EXPECT_EQ(check_case("d010", {{"expect", {{"new_function", 1}}}}).code, 1);
  EXPECT_EQ(check_case("d033", {{"layer", "diagonal"}}).code, 1);
}

#ifdef TESSERA_HAS_TORCH
TEST_F(GoldenCheck, TensorParallelPasses) {
  const Finished whole = check("tensor_parallel.json", table("tensor_parallel.json"));
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_NE(whole.out.find("tensor_parallel: 67 passed, 0 failed"), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("deviations: 7\n"), std::string::npos) << whole.out;
}

TEST_F(GoldenCheck, OneChangeInTensorParallelLayersFails) {
  const json error{{"error", {{"type", "RuntimeError"}}}};
  expect_each_fails("tensor_parallel.json", {{"d024", "/expect/shapes/1/2", 4},
                                             {"d024", "/expect/first_row/3/0/0", 8},
                                             {"d024", "/expect/contiguous/0", true},
                                             {"d025", "/expect/contiguous/3", false},
                                             {"d027", "/shape/1", 12},
                                             {"d029", "/expect/ranks/2/0/1", 5},
                                             {"d053", "/expect/output/2", 8},
                                             {"d053", "/expect/forward", json::array()},
                                             {"d053", "/expect/backward/0/0", "reduce_scatter"},
                                             {"d053", "/expect/backward/1/1/0", 2},
                                             {"d053", "/expect", error},
                                             {"d060", "/expect/backward/0/1", {2, 2, 4}},
                                             {"d062", "/expect/forward/0/1/2", 8},
                                             {"d063", "/expect/backward", json::array()},
                                             {"d064", "/sequence_parallel", false},
                                             {"d065", "/expect/forward/0/0", "all_reduce"},
                                             {"d065", "/expect/forward/2/1/0", 5},
                                             {"d065", "/expect/output/0", 5},
                                             {"d066", "/seq", 8}});
}

TEST_F(GoldenCheck, RulesOfTensorParallelLayersCoverKindsOfInput) {
  const json content = table("tensor_parallel.json");
  json cases = json::array();
  const auto add = [&](const std::string& id, const json& change) {
    json one = case_of(content, id);
    one.update(change);
    one["id"] = id + change.dump();
    cases.push_back(one);
  };
  const json error{{"error", {{"type", "ValueError"}}}};
  add("d024", {{"parts", 0}, {"expect", error}});
  add("d024", {{"shape", json::array()}, {"expect", error}});
  add("d029", {{"tp", -1}});
  add("d029", {{"tp", 0}, {"expect", error}});
  add("d029", {{"shape", {5, 5}}});
  add("d052", {{"tp", 0}});
  add("d052", {{"hidden", 0}});
  add("d053", {{"gather_output", true}, {"expect", error}});
  add("d053", {{"tp", 1}, {"expect", error}});
  add("d056", {{"hidden", 3}, {"tp", 4}, {"expect", error}});
  const Finished finished = check("tensor_parallel.json", {{"cases", cases}});
  EXPECT_EQ(finished.code, 0) << finished.out;
  EXPECT_NE(finished.out.find("deviations: 5\n"), std::string::npos) << finished.out;
}
#endif

}  // namespace
}  // namespace tessera

// golden_check on OLMo-core's tables: it must find what is wrong.
#include <gtest/gtest.h>

#include "tests/e2e/golden_fixture.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

TEST_F(GoldenCheck, OlmosPipelinesPass) {
  const Finished whole = check("olmo_pipeline.json", table("olmo_pipeline.json"));
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_NE(whole.out.find("olmo_pipeline: 55 passed, 0 failed"), std::string::npos);
}

TEST_F(GoldenCheck, OneChangeInOlmosPipelinesFails) {
  const std::string id = "split_ZBV_d2_l6";
  expect_each_fails("olmo_pipeline.json",
                    {{id, "/result/is_single_stage", nullptr},
                     {id, "/result/is_multi_stage", nullptr},
                     {id, "/result/default_style", "loop"},
                     {"ZBV_style_loop_d4", "/result/infer_style", "v"},
                     {id, "/result/final_stage_rank", 1},
                     {id, "/result/rank_completion_order/0", 1},
                     {id, "/result/stage_ids_of_rank/1/0", 2},
                     {id, "/result/split_points/2", 4},
                     {id, "/result/blocks_of_stage/0/1", 2},
                     {id, "/result/num_stages", 5},
                     {"not_divisible_d4_s6", "/result/stage_ids_of_rank/0", {0}},
                     {"split_GPipe_d3_l2_error", "/result/split_points", {1}}});
}

TEST_F(GoldenCheck, RulesOfOlmosPipelinesCoverKindsOfInput) {
  const json content = table("olmo_pipeline.json");
  json one = case_of(content, "split_custom_d2_l12");
  for (const json& points : {json{5, 2, 9}, json{2, 2, 9}, json{-1, 3, 5}, json{2, 5, 13}}) {
    one["split_points"] = points;
    EXPECT_EQ(check("olmo_pipeline.json", {{"cases", {one}}}).code, 0) << points;
  }
  one["split_points"] = {2, 5, 8};
  EXPECT_EQ(check("olmo_pipeline.json", {{"cases", {one}}}).code, 1) << "points that rise";
}

TEST_F(GoldenCheck, OlmosPlansPass) {
  const Finished plans = check("olmo_mesh.json", table("olmo_mesh.json"), "--part plan");
  EXPECT_EQ(plans.code, 0) << plans.out;
  EXPECT_NE(plans.out.find("olmo_mesh: 69 passed, 0 failed"), std::string::npos);
  EXPECT_NE(plans.out.find("deviations: 3\n"), std::string::npos) << plans.out;
}

// Inputs that the table does not hold but others of its form may.
TEST_F(GoldenCheck, RulesOfOlmosMeshesCoverKindsOfInput) {
  const json content = table("olmo_mesh.json");
  const auto passes = [&](const char* id, const char* at, const json& value) {
    json one = case_of(content, id);
    one[json::json_pointer(at)] = value;
    EXPECT_EQ(check("olmo_mesh.json", {{"cases", {one}}}, "--part plan").code, 0) << at << value;
  };
  passes("hsdp_rep2_shard4_w8", "/dp/name", "zero3");
  passes("hsdp_rep2_shard4_w8", "/dp/shard_degree", 2);
  passes("hsdp_rep2_shard4_w8", "/dp/num_replicas", 8);
  passes("hsdp_ep4_w8", "/ep/degree", -2);
  passes("hsdp_nodes2_w16", "/env/NUM_NODES", "3");
}

#ifdef TESSERA_HAS_TORCH
TEST_F(GoldenCheck, OlmosMeshesPass) {
  const Finished whole = check("olmo_mesh.json", table("olmo_mesh.json"));
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_NE(whole.out.find("olmo_mesh: 141 passed, 0 failed"), std::string::npos);
}

TEST_F(GoldenCheck, OneChangeInOlmosMeshesFails) {
  const std::string id = "hsdp_pp2_cp2_tp2_w32";
  const json error{{"error", {{"type", "RuntimeError"}}}};
  std::vector<Change> changes{{id, "/result/mesh/names/1", "dp"},
                              {id, "/result/mesh/shape/0", 4},
                              {id, "/result/mesh/info", "5D"},
                              {id, "/result/registered_as_world_mesh", false},
                              {"none_w4", "/result/registered_as_world_mesh", true},
                              {id, "/result/coord_of_rank/31/4", 0},
                              {id, "/result/get_dp_process_group/groups/0/1", 1},
                              {id, "/result/get_dp_process_group/group_of_rank/31", 0},
                              {id, "/result/get_dp_process_group/rank_in_group/31", 0},
                              {id, "/result", error},
                              {"tp3_w8", "/tp/degree", 2}};
  const json whole = case_of(table("olmo_mesh.json"), id);
  for (const auto& [name, sub] : whole["result"]["sub"].items()) {
    if (sub.contains("error")) continue;
    const std::string at = "/result/sub/" + name;
    for (const char* part : {"/names/0", "/shape/0", "/info", "/meshes/0/0", "/mesh_of_rank/31",
                             "/coord_of_rank/31/0"}) {
      changes.push_back({id, at + part, 99});
    }
    changes.push_back({id, at, error});
  }
  EXPECT_EQ(changes.size(), 11U + 11 * 7) << "eleven accessors";
  expect_each_fails("olmo_mesh.json", changes, "--part mesh");
  expect_each_fails(
      "olmo_mesh.json",
      {{"epm_ep4_w8", "/result/sub/get_ep_mesh/meshes/1/0", 0}, {"epm_ep3_w8", "/ep/degree", 2}},
      "--part expert_parallel_mesh");
}

#endif

}  // namespace
}  // namespace tessera

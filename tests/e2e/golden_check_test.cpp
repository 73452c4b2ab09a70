// golden_check itself: it must find what is wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Finished;

class GoldenCheck : public testing::Test {
 protected:
  static json table(const std::string& name) {
    return json::parse(std::ifstream(fs::path(TESSERA_GOLDEN_DIR) / name));
  }

  static json case_of(const json& content, const std::string& id) {
    for (const json& one : content["cases"]) {
      if (one["id"] == id) return one;
    }
    ADD_FAILURE() << "no case " << id;
    return {};
  }

  // Checks the content as a file of this name.
  Finished check(const std::string& name, const json& content, const std::string& flags = "") {
    return testkit::run(TESSERA_GOLDEN_CHECK " " + flags + " " +
                        folder_.file(name, content.dump()));
  }

  // One answer of a case, by its place, and what it is changed to.
  struct Change {
    std::string id;
    std::string at;
    json value;
  };

  // Each change makes its case fail; all of them in one file.
  void expect_each_fails(const std::string& name, const std::vector<Change>& changes,
                         const std::string& flags = "") {
    const json content = table(name);
    json cases = json::array();
    for (const auto& [id, at, value] : changes) {
      json one = case_of(content, id);
      ASSERT_TRUE(one.contains(json::json_pointer(at))) << id << at;
      one[json::json_pointer(at)] = value;
      one["id"] = id + at;
      cases.push_back(one);
    }
    const std::string table_name = name.substr(0, name.find('.'));
    const Finished finished = check(name, {{"cases", cases}}, flags);
    const std::string tally =
        table_name + ": 0 passed, " + std::to_string(changes.size()) + " failed\n";
    EXPECT_EQ(finished.code, 1);
    if (finished.out.find(tally) != std::string::npos) return;
    for (const json& one : cases) {
      const std::string id = one["id"];
      if (finished.out.find(table_name + " " + id + ":") != std::string::npos) continue;
      ADD_FAILURE() << id << " was changed, and passes";
    }
  }

  const testkit::TemporaryFolder folder_;
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

// The case of this id, alone.
json nemo_case(const json& content, const std::string& id) {
  for (const json& one : content["cases"]) {
    if (one["id"] == id) return {{"cases", {one}}};
  }
  ADD_FAILURE() << id;
  return {};
}

TEST_F(GoldenCheck, NemosMeshesPass) {
  const Finished whole = check("nemo_mesh.json", table("nemo_mesh.json"));
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_NE(whole.out.find("nemo_mesh: 85 passed, 0 failed"), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("deviations: 33\n"), std::string::npos) << whole.out;
}

TEST_F(GoldenCheck, OneChangeInNemosMeshesFails) {
  const json content = table("nemo_mesh.json");
  const auto fails = [&](const std::string& id, const std::string& at, const json& value) {
    json changed = nemo_case(content, id);
    const json::json_pointer pointer("/cases/0/expect" + at);
    ASSERT_TRUE(changed.contains(pointer)) << at;
    changed[pointer] = value;
    EXPECT_EQ(check("nemo_mesh.json", changed).code, 1) << id << at;
  };
  const std::string experts = "fsdp2_w8_dpNone_rNone_tp1_pp2_cp1_ep2";
  fails(experts, "/device_mesh/dims/0", "qq");
  fails(experts, "/device_mesh/shape/2", 3);
  fails(experts, "/device_mesh/coords/5/2", 2);
  fails(experts, "/device_mesh/groups/pp/1/1", 6);
  fails(experts, "/moe_mesh/groups/ep/0/1", 2);
  fails(experts, "/moe_mesh_document/groups/ep_shard/1/1", 2);
  fails(experts, "/flattened/dp_cp/size", 5);
  fails(experts, "/flattened/dp/groups/0/3", 7);
  fails(experts, "/sizes/dp_shard_size", 1);
  fails(experts, "/dp_axis_names/0", "dp");
  fails(experts, "/get_flat_mesh/tp/groups/3/0", 4);
  fails(experts, "/get_flat_mesh/tp", {{"error", {{"reason", "unknown_dim"}}}});
  fails(experts, "/get_flat_mesh/ep", {{"groups", {{0, 1}}}});
  fails(experts, "/get_submesh/dp+cp/shape/0", 2);
  fails(experts, "/get_submesh/pp+dp", {{"dims", {"pp", "dp"}}});
  const std::string ring = "fsdp2_w8_dpNone_rNone_tp2_pp1_cp2_ep1_ring_ulysses";
  fails(ring, "/get_submesh/ring2xulysses1/groups/ring/0/1", 4);
  fails(ring, "/get_submesh/ring2xulysses2", {{"dims", {"ring", "ulysses"}}});
  const std::string listed =
      "fsdp2_w4_dpNone_rNone_tp2_pp1_cp1_ep1_actual_world_size8_ranks6-2-5-1";
  fails(listed, "/device_mesh/coords/2/4", 0);
  fails(listed, "/flattened/dp/groups/0/1", 6);
  fails("ddp_w8_dpNone_rNone_tp1_pp1_cp1_ep1", "/device_mesh", {{"dims", {"dp"}}});
}

// Inputs that the table does not hold but others of its form may.
TEST_F(GoldenCheck, RulesOfNemosMeshesCoverKindsOfInput) {
  const auto code = [&](const std::string& id, const json& input) {
    json one = nemo_case(table("nemo_mesh.json"), id);
    one["cases"][0]["input"].update(input);
    return check("nemo_mesh.json", one).code;
  };
  const std::string plain = "fsdp2_w8_dpNone_rNone_tp2_pp1_cp1_ep1";
  EXPECT_EQ(code(plain, {{"tp_size", "2"}}), 0) << "a text";
  EXPECT_EQ(code(plain, {{"cp_size", -1}}), 0) << "below one";
  EXPECT_EQ(code(plain, {{"dp_size", 3}}), 0) << "does not cover the world";
  EXPECT_EQ(code(plain, {{"world_size", 4}, {"actual_world_size", 8}}), 0) << "contradiction";
  EXPECT_EQ(code(plain, {{"ranks", {0, 1, 2, 3, 4, 5, 6, 9}}}), 0) << "outside the world";
  EXPECT_EQ(code(plain, {{"dp_replicate_size", -2}, {"dp_size", -1}}), 0) << "as the page says";
  EXPECT_EQ(code(plain, {{"world_size", nullptr}, {"actual_world_size", 8}}), 0) << "inferred";
  EXPECT_EQ(code(plain, {{"cp_size", 2}}), 1) << "another mesh";
  EXPECT_EQ(code(plain, {{"strategy", "fsdp3"}}), 1) << "an unknown strategy";
}
#endif

// The case of this id of the peer's pipeline tables, alone in a file.
json pipeline_case(const json& content, const std::string& part, const std::string& id) {
  for (const json& one : content[part]) {
    if (one["id"] == id) return {{part, {one}}};
  }
  return {};
}

TEST_F(GoldenCheck, OneChangedActionOfAPipelineFails) {
  const json content = table("pipeline.json");
  const json as_is = pipeline_case(content, "tables", "InterleavedZeroBubble_pp2_s2_m4");
  ASSERT_EQ(check("pipeline.json", as_is).code, 0);
  for (const char* field : {"compute", "lowered", "lowered_deferred_recv", "merge_bw"}) {
    json changed = as_is;
    std::swap(changed["tables"][0][field][0][2], changed["tables"][0][field][0][4]);
    EXPECT_EQ(check("pipeline.json", changed).code, 1) << field;
  }
  json changed = as_is;
  changed["tables"][0]["torch_sim_steps"] = 1;
  EXPECT_EQ(check("pipeline.json", changed).code, 1);
  changed = as_is;
  changed["tables"][0]["brand_new_field"] = 1;
  EXPECT_EQ(check("pipeline.json", changed).code, 1);
}

TEST_F(GoldenCheck, RulesOfPipelinesSpeakOfKinds) {
  const json valid = pipeline_case(table("pipeline.json"), "small", "v_ok");
  const auto with_row = [&](const json& row) {
    json changed = valid;
    changed["small"][0]["rows"][0] = row;
    return check("pipeline.json", changed);
  };
  EXPECT_EQ(with_row({"0F0", "0F1", "0F1", "0B0", "0B1"}).code, 0) << "repeated";
  EXPECT_EQ(with_row({"0F0", "0F2", "0B0", "0B2"}).code, 0) << "beyond their number";
  EXPECT_EQ(with_row({"0F0", "0F1", "0B0", "0I0", "0W0"}).code, 0) << "two backwards";
  EXPECT_EQ(with_row({"0F0", "0F1x", "0B0", "0B1"}).code, 0) << "text behind";
  EXPECT_EQ(with_row({"0F0", "0F1", "0B1"}).code, 1) << "the peer would refuse it";
}

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

// golden_check on NeMo's tables: it must find what is wrong.
#include <gtest/gtest.h>

#include "tests/e2e/golden_fixture.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

#ifdef TESSERA_HAS_TORCH

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

}  // namespace
}  // namespace tessera

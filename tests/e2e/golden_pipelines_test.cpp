// golden_check on pipelines: it must find what is wrong.
#include <gtest/gtest.h>

#include "tests/e2e/golden_fixture.h"

namespace tessera {
namespace {

using nlohmann::json;

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

}  // namespace
}  // namespace tessera

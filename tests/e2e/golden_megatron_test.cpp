// golden_check on Megatron's tables: it must find what is wrong.
#include <gtest/gtest.h>

#include "tests/e2e/golden_fixture.h"

namespace tessera {
namespace {

using nlohmann::json;
using testkit::Finished;

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

}  // namespace
}  // namespace tessera

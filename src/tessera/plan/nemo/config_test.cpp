#include "tessera/plan/nemo/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera::nemo {
namespace {

using nlohmann::json;
using testkit::message_of;

std::string refusal(const std::string& text) {
  return message_of<ConfigError>([&] { (void)config_from_json(text); });
}

TEST(NemoConfig, StrategiesHaveTheirSpellings) {
  for (const char* name : {"megatron_fsdp", "megatron-fsdp", "MFSDP", "Megatron_FSDP"}) {
    EXPECT_STREQ(strategy_name(strategy_named(name)), "megatron_fsdp") << name;
  }
  EXPECT_STREQ(strategy_name(strategy_named("FSDP2")), "fsdp2");
  EXPECT_STREQ(strategy_name(strategy_named("DDP")), "ddp");
  EXPECT_EQ(message_of<ConfigError>([] { (void)strategy_named("fsdp"); }),
            "strategy 'fsdp' is unknown; choose fsdp2, megatron_fsdp, ddp; did you mean 'fsdp2'?");
}

TEST(NemoConfig, DefaultsAreThePeers) {
  const json fsdp2 = json::parse(to_json(FSDP2Config{}));
  EXPECT_EQ(fsdp2, json::parse(R"({"strategy": "fsdp2", "sequence_parallel": false,
    "tp_plan": null, "patch_is_packed_sequence": false,
    "mp_policy": {"param_dtype": "bfloat16", "reduce_dtype": "float32", "output_dtype": null,
                  "cast_forward_inputs": false},
    "offload_policy": null, "autocast_dtype": null, "activation_checkpointing": false,
    "activation_checkpointing_scope": ["all"], "defer_fsdp_grad_sync": true,
    "reshard_after_forward": null, "enable_async_tensor_parallel": false, "enable_compile": false,
    "enable_fsdp2_prefetch": false, "fsdp2_backward_prefetch_depth": 2,
    "fsdp2_forward_prefetch_depth": 1,
    "multimodal": {"frozen_sharding": "root", "vision": {"frame_sharding": {"enabled": false,
      "mesh_dims": ["cp"], "min_tokens": 2048, "min_frames": 32, "min_local_patch_rows": 96,
      "cost_alpha": null}}},
    "backend": "nccl"})"));
  const json megatron = json::parse(to_json(MegatronFSDPConfig{}));
  EXPECT_EQ(megatron, json::parse(R"({"strategy": "megatron_fsdp",
    "megatron_fsdp_unit_modules": null, "zero_dp_strategy": 3, "init_fsdp_with_meta_device": false,
    "grad_reduce_in_fp32": false, "preserve_fp32_weights": false, "overlap_grad_reduce": true,
    "overlap_param_gather": true, "check_for_nan_in_grad": true, "report_nan_in_param_grad": false,
    "average_in_collective": false, "disable_bucketing": false, "calculate_per_token_loss": false,
    "keep_fp8_transpose_cache": false, "nccl_ub": false, "fsdp_double_buffer": false,
    "activation_checkpointing": false, "backend": "nccl"})"));
  const json ddp = json::parse(to_json(DDPConfig{}));
  EXPECT_EQ(ddp, json::parse(R"({"strategy": "ddp", "activation_checkpointing": false,
    "activation_checkpointing_scope": ["all"], "broadcast_buffers": false,
    "find_unused_parameters": false, "static_graph": false, "bucket_cap_mb": null,
    "gradient_as_bucket_view": false, "autocast_dtype": null, "backend": "nccl"})"));
}

TEST(NemoConfig, RoundTrips) {
  FSDP2Config fsdp2{.tp_plan = "mine",
                    .mp_policy = {.param_dtype = std::nullopt, .cast_forward_inputs = true},
                    .offload_policy = CPUOffloadPolicy{.pin_memory = false},
                    .autocast_dtype = Dtype::kFloat16,
                    .activation_checkpointing = ActivationCheckpointing::kSelective,
                    .activation_checkpointing_scope = {"vision", "audio"},
                    .reshard_after_forward = false,
                    .backend = "gloo"};
  fsdp2.multimodal.vision.frame_sharding.cost_alpha = 7;
  const MegatronFSDPConfig megatron{
      .megatron_fsdp_unit_modules = std::vector<std::string>{"A", "B"}, .zero_dp_strategy = 1};
  const DDPConfig ddp{.activation_checkpointing = ActivationCheckpointing::kFull,
                      .bucket_cap_mb = 12.5};
  EXPECT_EQ(config_from_json(to_json(fsdp2)), DistributedConfig(fsdp2));
  EXPECT_EQ(config_from_json(to_json(megatron)), DistributedConfig(megatron));
  EXPECT_EQ(config_from_json(to_json(ddp)), DistributedConfig(ddp));
}

TEST(NemoConfig, WhatIsLeftOutOrNullHasItsDefault) {
  EXPECT_EQ(config_from_json("{}"), DistributedConfig(FSDP2Config{}));
  EXPECT_EQ(config_from_json(R"({"strategy": "DDP", "backend": null})"),
            DistributedConfig(DDPConfig{}));
}

TEST(NemoConfig, PeersSpellingsAreRead) {
  const auto read = [](const std::string& text) {
    return std::get<FSDP2Config>(config_from_json(text));
  };
  EXPECT_EQ(read(R"({"activation_checkpointing": true})").activation_checkpointing,
            ActivationCheckpointing::kFull);
  const std::vector<std::string> both{"language", "vision"};
  EXPECT_EQ(read(R"({"activation_checkpointing_scope": "language+Vision"})")
                .activation_checkpointing_scope,
            both);
  EXPECT_EQ(read(R"({"activation_checkpointing_scope": ["language", "vision"]})")
                .activation_checkpointing_scope,
            both);
  EXPECT_EQ(read(R"({"multimodal": {"vision": {"frame_sharding": {"cost_alpha": "auto"}}}})"),
            FSDP2Config{});
}

TEST(NemoConfig, RefusalsNameThePlaceTheValueAndTheFix) {
  EXPECT_EQ(refusal(R"({"sequence_paralel": true})"),
            "fsdp2 has no field 'sequence_paralel'; did you mean 'sequence_parallel'?");
  EXPECT_TRUE(refusal(R"({"strategy": "ddp", "tp_plan": "x"})")
                  .starts_with("ddp has no field 'tp_plan'; it has activation_checkpointing, "));
  EXPECT_EQ(refusal(R"({"sequence_parallel": 1})"),
            "fsdp2.sequence_parallel is 1; expected true or false");
  EXPECT_EQ(refusal(R"({"mp_policy": {"param_dtype": "bfloat"}})"),
            "fsdp2.mp_policy.param_dtype 'bfloat' is unknown; choose float64, float32, float16, "
            "bfloat16; did you mean 'bfloat16'?");
  EXPECT_EQ(refusal(R"({"fsdp2_forward_prefetch_depth": -1})"),
            "fsdp2.fsdp2_forward_prefetch_depth is -1; expected a whole number of at least 0");
  EXPECT_EQ(
      refusal(R"({"activation_checkpointing_scope": "all,vision"})"),
      "fsdp2.activation_checkpointing_scope is \"all,vision\"; expected all alone, or others");
  EXPECT_EQ(refusal(R"({"activation_checkpointing": "some"})"),
            "fsdp2.activation_checkpointing is \"some\"; expected true, false, \"full\" or "
            "\"selective\"");
  EXPECT_EQ(refusal(R"({"strategy": "ddp", "bucket_cap_mb": 0})"),
            "ddp.bucket_cap_mb is 0; expected a number above 0");
  EXPECT_NE(refusal("{").find("broken JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(100'000, '[')).find("nested"), std::string::npos);
  EXPECT_NE(refusal("[]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal(R"({"strategy": 2})").find("strategy is 2; expected text"), std::string::npos);
}

}  // namespace
}  // namespace tessera::nemo

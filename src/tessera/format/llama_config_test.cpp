#include "tessera/format/llama_config.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/format/llama_presets.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

LlamaConfig parsed(std::string_view text) {
  return parse_llama_config(text, "config.json");
}

std::string refusal(std::string_view text) {
  return message_of<DataError>([&] { parsed(text); });
}

TEST(LlamaConfig, AnEmptyFileHasTheDefaultsOfTransformers) {
  EXPECT_EQ(parsed("{}"), LlamaConfig{});
}

TEST(LlamaConfig, Llama31) {
  const LlamaConfig config = parsed(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "eos_token_id": [128001, 128008], "torch_dtype": "bfloat16", "use_cache": true})");
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_EQ(config.rope_scaling, Llama3RopeScaling{});
}

TEST(LlamaConfig, LiesInAFolder) {
  const testkit::TemporaryFolder folder;
  EXPECT_THROW(read_llama_config(folder.path()), DataError);
  folder.file("config.json", R"({"hidden_size": 64})");
  EXPECT_EQ(read_llama_config(folder.path()).hidden_size, 64);
}

TEST(LlamaConfig, NewerFilesHaveRopeParameters) {
  const LlamaConfig config = parsed(
      R"({"rope_parameters": {"rope_theta": 5000, "rope_type": "default"}, "head_dim": null})");
  EXPECT_EQ(config.rope_theta, 5000);
  EXPECT_EQ(config.rope_scaling, std::nullopt);
}

TEST(LlamaConfig, WrittenAndReadAgain) {
  LlamaConfig config{.vocab_size = 256,
                     .hidden_size = 96,
                     .intermediate_size = 100,
                     .num_hidden_layers = 3,
                     .num_attention_heads = 6,
                     .num_key_value_heads = 2,
                     .head_dim = 24,
                     .rms_norm_eps = 1e-5,
                     .tie_word_embeddings = true};
  EXPECT_EQ(parsed(to_json(config, "float32")), config);
  config.rope_scaling = Llama3RopeScaling{.factor = 32};
  EXPECT_EQ(parsed(to_json(config, "float32")), config);
}

TEST(LlamaConfig, FamiliesHaveTheirOwnDefaults) {
  const LlamaConfig mixtral = parsed(R"({"model_type": "mixtral", "num_local_experts": 4})");
  EXPECT_EQ(mixtral.num_experts, 4);
  EXPECT_EQ(mixtral.num_key_value_heads, 8);
  EXPECT_EQ(mixtral.head_dim, 128);
  EXPECT_EQ(mixtral.expert_size(), 14336);
  EXPECT_TRUE(mixtral.norm_topk_prob && mixtral.has_experts(0));
  const LlamaConfig qwen = parsed(R"({"model_type": "qwen3_moe", "decoder_sparse_step": 2,
                                      "mlp_only_layers": [3, 4], "num_hidden_layers": 6})");
  EXPECT_EQ(qwen.head_dim, 64);
  EXPECT_EQ(qwen.num_sparse_layers(), 2);  // Layers 1 and 5.
  EXPECT_TRUE(qwen.has_experts(1) && !qwen.has_experts(2) && !qwen.has_experts(3));
  EXPECT_TRUE(qwen.qk_norm && !qwen.norm_topk_prob);
  const LlamaConfig shared = parsed(R"({"model_type": "qwen2_moe"})");
  EXPECT_EQ(shared.shared_expert_intermediate_size, 5632);
  EXPECT_TRUE(shared.qkv_bias && !shared.attention_bias && !shared.norm_topk_prob);
  EXPECT_EQ(parsed(R"({"model_type": "qwen3"})").head_dim, 128);
  EXPECT_EQ(parsed(R"({"model_type": "mistral"})").sliding_window, 4096);
  EXPECT_EQ(parsed(R"({"model_type": "mistral", "sliding_window": null})").sliding_window, 0);
}

TEST(LlamaConfig, FamiliesAreWrittenAndReadAgain) {
  for (
      const char* const text :
      {R"({"model_type": "mistral", "sliding_window": 7})", R"({"model_type": "qwen3"})",
       R"({"model_type": "mixtral", "num_local_experts": 4, "router_aux_loss_coef": 0})",
       R"({"model_type": "qwen3_moe", "norm_topk_prob": true, "mlp_only_layers": [1],
            "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 12})",
       R"({"model_type": "qwen2_moe", "shared_expert_intermediate_size": 20, "qkv_bias": false})"}) {
    const LlamaConfig config = parsed(text);
    EXPECT_EQ(parsed(to_json(config, "float32")), config) << text;
  }
}

TEST(LlamaConfig, ExpertsThatDoNotFitAreRefused) {
  const auto refusal_of = [](LlamaConfig config) {
    return testkit::message_of<ConfigError>([&] { check(config); });
  };
  EXPECT_EQ(refusal_of({.model_type = "mixtral", .num_experts = 4, .num_experts_per_tok = 5}),
            "num_experts_per_tok=5, but a token can visit from 1 to num_experts=4 experts");
  EXPECT_EQ(
      refusal_of({.num_experts = 4}),
      "num_experts=4, but models of type llama have no experts; begin with a preset that has, "
      "e.g. tiny-moe");
  EXPECT_EQ(refusal_of({.model_type = "mixtral"}),
            "num_experts=0, but a model of type mixtral has experts; choose at least 1");
  EXPECT_EQ(refusal_of({.shared_expert_intermediate_size = 4}),
            "shared_expert_intermediate_size=4, but models of type llama have no shared expert; "
            "begin with a preset that has, e.g. tiny-qwen2-moe");
  LlamaConfig shared = llama_preset("tiny-qwen2-moe");
  shared.shared_expert_intermediate_size = 0;
  EXPECT_EQ(refusal_of(shared),
            "shared_expert_intermediate_size=0, but models of type qwen2_moe have a shared expert; "
            "choose from 1 to 2147483648");
  EXPECT_EQ(refusal_of({.qkv_bias = true}),
            "qkv_bias=true, but models of type llama have none; leave it out");
  LlamaConfig wide = llama_preset("tiny-qwen2-moe");
  wide.head_dim = 64;
  EXPECT_EQ(refusal_of(wide),
            "head_dim=64 times num_attention_heads=4 is not hidden_size=192, as models of type "
            "qwen2_moe need it");
  EXPECT_EQ(refusal_of({.sliding_window = 4}),
            "sliding_window=4, but models of type llama have none; leave it out");
  EXPECT_EQ(
      refusal_of({.model_type = "mixtrl"}),
      "model_type 'mixtrl' is unknown; choose from llama, mistral, qwen3, mixtral, qwen3_moe, "
      "qwen2_moe; did you mean 'mixtral'?");
}

TEST(LlamaConfig, WhatWouldTrainToSomethingElseIsRefused) {
  EXPECT_EQ(
      refusal(R"({"model_type": "gpt2"})"),
      R"(config.json: model_type is "gpt2"; expected "llama", "mistral", "qwen3", "mixtral", )"
      R"("qwen3_moe", "qwen2_moe")");
  EXPECT_NE(refusal(R"({"model_type": "qwen3", "use_sliding_window": true})").find("false"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "mixtral", "router_jitter_noise": 0.1})").find("expected 0"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"hidden_act": "gelu"})"),
            R"(config.json: hidden_act is "gelu"; expected "silu")");
  EXPECT_NE(refusal(R"({"rope_scaling": {"type": "linear", "factor": 2}})").find("llama3"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"num_attention_heads": 6, "num_key_value_heads": 4, "hidden_size": 12})"),
            "config.json: num_attention_heads=6 is not a multiple of num_key_value_heads=4; every "
            "key-value head must serve equally many heads");
  EXPECT_NE(refusal(R"({"head_dim": 3})").find("odd"), std::string::npos);
  EXPECT_NE(refusal(R"({"hidden_size": 0})").find("from 1 to"), std::string::npos);
  EXPECT_NE(refusal(R"({"hidden_size": 10.5})").find("whole number"), std::string::npos);
  EXPECT_NE(refusal(R"({"rms_norm_eps": -1})").find("above 0"), std::string::npos);
  EXPECT_NE(refusal("[]").find("object"), std::string::npos);
}

TEST(LlamaConfig, OfNoSizeIsRefused) {
  const auto refusal_of = [](LlamaConfig config) {
    return testkit::message_of<ConfigError>([&] { check(config); });
  };
  EXPECT_EQ(refusal_of({.hidden_size = 0}), "hidden_size=0; sizes must be from 1 to 2147483648");
  EXPECT_EQ(refusal_of({.num_key_value_heads = -1}),
            "num_key_value_heads=-1; sizes must be from 1 to 2147483648");
}

TEST(LlamaConfig, SizesThatNoMachineHoldsAreRefusedByName) {
  EXPECT_EQ(refusal(R"({"vocab_size": 4611686018427387904})"),
            "config.json: vocab_size is 4611686018427387904; expected a whole number from 1 to "
            "2147483648");
  EXPECT_EQ(refusal(R"({"num_hidden_layers": 1000000000})"),
            "config.json: num_hidden_layers=1000000000; it must be from 1 to 65536");
  EXPECT_EQ(refusal(R"({"hidden_size": 200000000, "num_attention_heads": 2000})"),
            "config.json: these sizes give 5,120,224,166,600,000,000 parameters; at most "
            "1,125,899,906,842,624 are allowed");
  EXPECT_NE(refusal(R"({"vocab_size": 2147483648, "hidden_size": 2147483648,
                        "num_attention_heads": 1})")
                .find("config.json: the size of the Llama overflows 64 bits: "),
            std::string::npos);
}

}  // namespace
}  // namespace tessera

#include "tessera/format/llama_presets.h"

#include <array>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

LlamaConfig tiny() {
  return {.vocab_size = 256,
          .hidden_size = 192,
          .intermediate_size = 512,
          .num_hidden_layers = 4,
          .num_attention_heads = 4,
          .num_key_value_heads = 4,
          .head_dim = 48,
          .max_position_embeddings = 2048,
          .rms_norm_eps = 1e-5};
}

LlamaConfig llama3_8b() {
  return {.vocab_size = 128256,
          .hidden_size = 4096,
          .intermediate_size = 14336,
          .num_hidden_layers = 32,
          .num_attention_heads = 32,
          .num_key_value_heads = 8,
          .head_dim = 128,
          .max_position_embeddings = 8192,
          .rms_norm_eps = 1e-5,
          .rope_theta = 500000};
}

LlamaConfig llama3_70b() {
  LlamaConfig config = llama3_8b();
  config.hidden_size = 8192;
  config.intermediate_size = 28672;
  config.num_hidden_layers = 80;
  config.num_attention_heads = 64;
  return config;
}

LlamaConfig tiny_moe() {
  LlamaConfig config = tiny();
  config.intermediate_size = 256;
  config.model_type = "mixtral";
  config.num_experts = 8;
  return config;
}

// tiny_moe() with half of its experts' width in the shared expert.
LlamaConfig tiny_qwen2_moe() {
  LlamaConfig config = tiny();
  config.model_type = "qwen2_moe";
  config.qkv_bias = true;
  config.num_experts = 8;
  config.moe_intermediate_size = 128;
  config.norm_topk_prob = false;
  config.shared_expert_intermediate_size = 256;
  return config;
}

LlamaConfig mixtral_8x7b() {
  return {.vocab_size = 32000,
          .hidden_size = 4096,
          .intermediate_size = 14336,
          .num_hidden_layers = 32,
          .num_attention_heads = 32,
          .num_key_value_heads = 8,
          .head_dim = 128,
          .max_position_embeddings = 32768,
          .rms_norm_eps = 1e-5,
          .rope_theta = 1e6,
          .model_type = "mixtral",
          .num_experts = 8,
          .router_aux_loss_coef = 0.02};
}

using Preset = std::pair<std::string_view, LlamaConfig (*)()>;
constexpr std::array<Preset, 6> kPresets{{{"tiny", tiny},
                                          {"llama3-8b", llama3_8b},
                                          {"llama3-70b", llama3_70b},
                                          {"tiny-moe", tiny_moe},
                                          {"tiny-qwen2-moe", tiny_qwen2_moe},
                                          {"mixtral-8x7b", mixtral_8x7b}}};

}  // namespace

LlamaConfig llama_preset(std::string_view name) {
  for (const auto& [known, make] : kPresets) {
    if (known == name) return make();
  }
  const auto names = llama_preset_names();
  throw ConfigError(concat("preset '", name, "' is unknown; choose from ", join(names, ", "),
                           did_you_mean(name, names)));
}

std::vector<std::string> llama_preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kPresets) names.emplace_back(name);
  return names;
}

}  // namespace tessera

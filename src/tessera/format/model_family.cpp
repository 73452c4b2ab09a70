#include "tessera/format/model_family.h"

#include <array>

#include "tessera/base/check.h"

namespace tessera {
namespace {

LlamaConfig llama() {
  return {};
}

LlamaConfig mistral() {
  return {.intermediate_size = 14336,
          .num_key_value_heads = 8,
          .max_position_embeddings = 131072,
          .model_type = "mistral",
          .sliding_window = 4096};
}

LlamaConfig qwen3() {
  return {.vocab_size = 151936,
          .intermediate_size = 22016,
          .max_position_embeddings = 32768,
          .model_type = "qwen3",
          .qk_norm = true};
}

LlamaConfig mixtral() {
  return {.intermediate_size = 14336,
          .num_key_value_heads = 8,
          .max_position_embeddings = 131072,
          .rms_norm_eps = 1e-5,
          .rope_theta = 1e6,
          .model_type = "mixtral",
          .num_experts = 8};
}

LlamaConfig qwen3_moe() {
  return {.vocab_size = 151936,
          .hidden_size = 2048,
          .intermediate_size = 6144,
          .num_hidden_layers = 24,
          .num_key_value_heads = 4,
          .max_position_embeddings = 32768,
          .model_type = "qwen3_moe",
          .qk_norm = true,
          .num_experts = 128,
          .num_experts_per_tok = 8,
          .moe_intermediate_size = 768,
          .norm_topk_prob = false};
}

LlamaConfig qwen2_moe() {
  return {.vocab_size = 151936,
          .hidden_size = 2048,
          .intermediate_size = 5632,
          .num_hidden_layers = 24,
          .num_attention_heads = 16,
          .num_key_value_heads = 16,
          .max_position_embeddings = 32768,
          .model_type = "qwen2_moe",
          .qkv_bias = true,
          .num_experts = 60,
          .num_experts_per_tok = 4,
          .moe_intermediate_size = 1408,
          .norm_topk_prob = false,
          .shared_expert_intermediate_size = 5632};
}

constexpr std::array kFamilies{
    ModelFamily{.model_type = "llama", .architecture = "LlamaForCausalLM", .defaults = llama},
    ModelFamily{.model_type = "mistral",
                .architecture = "MistralForCausalLM",
                .defaults = mistral,
                .num_key_value_heads = 8,
                .has_window = true},
    ModelFamily{.model_type = "qwen3",
                .architecture = "Qwen3ForCausalLM",
                .defaults = qwen3,
                .num_key_value_heads = 32,
                .head_dim = 128},
    ModelFamily{.model_type = "mixtral",
                .architecture = "MixtralForCausalLM",
                .defaults = mixtral,
                .num_key_value_heads = 8,
                .has_window = true,
                .experts = {.count_key = "num_local_experts",
                            .block = "block_sparse_moe",
                            .gate = "w1",
                            .up = "w3",
                            .down = "w2"}},
    ModelFamily{.model_type = "qwen3_moe",
                .architecture = "Qwen3MoeForCausalLM",
                .defaults = qwen3_moe,
                .num_key_value_heads = 4,
                .experts = {.count_key = "num_experts", .has_dense_layers = true}},
    ModelFamily{
        .model_type = "qwen2_moe",
        .architecture = "Qwen2MoeForCausalLM",
        .defaults = qwen2_moe,
        .num_key_value_heads = 16,
        .has_qkv_bias = true,
        .experts = {.count_key = "num_experts", .has_dense_layers = true, .has_shared = true}},
};

}  // namespace

std::span<const ModelFamily> model_families() {
  return kFamilies;
}

const ModelFamily& model_family(std::string_view model_type) {
  std::vector<std::string> names;
  for (const ModelFamily& family : kFamilies) {
    if (family.model_type == model_type) return family;
    names.emplace_back(family.model_type);
  }
  throw ConfigError(concat("model_type '", model_type, "' is unknown; choose from ",
                           join(names, ", "), did_you_mean(model_type, names)));
}

}  // namespace tessera

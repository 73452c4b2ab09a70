#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"

namespace tessera TSR_API {

/// Hugging Face's names of the parts of a layer with experts.
struct ExpertNames {
  std::string_view count_key = "";      // The key of their number in config.json; "": no experts.
  std::string_view block = "mlp";       // The part of a layer that holds router and experts.
  std::string_view gate = "gate_proj";  // An expert's matrix before the SiLU.
  std::string_view up = "up_proj";      // An expert's matrix beside the gate.
  std::string_view down = "down_proj";  // An expert's matrix that gives its output.
  bool has_dense_layers = false;        // Keys for layers without experts, and for another width.
  bool has_shared = false;              // Every layer with experts has one that all tokens visit.
};

/// Models that transformers loads with one class. All of them are a LlamaConfig: what differs is in
/// its values, in names, and in the defaults of keys that a file leaves out.
struct ModelFamily {
  std::string_view model_type;      // "mixtral"
  std::string_view architecture;    // "MixtralForCausalLM"
  LlamaConfig (*defaults)();        // Makes the config whose values a file overrides.
  int64_t num_key_value_heads = 0;  // If a file leaves them out; 0: num_attention_heads.
  int64_t head_dim = 0;             // The same; 0: hidden_size / num_attention_heads.
  bool has_window = false;          // Whether files have a sliding_window.
  bool has_qkv_bias = false;        // Whether files have a qkv_bias.
  ExpertNames experts = {};         // Without a count_key: a dense family.
};

/// llama, mistral, qwen3, mixtral, qwen3_moe and qwen2_moe.
std::span<const ModelFamily> model_families();

/// ConfigError for another model_type.
const ModelFamily& model_family(std::string_view model_type);

}  // namespace tessera

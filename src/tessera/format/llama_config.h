#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The scaling of the rotary embedding to longer sequences in Llama 3.1 and later.
struct Llama3RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;

  friend bool operator==(const Llama3RopeScaling&, const Llama3RopeScaling&) = default;
};

/// The shape of a Llama, with the names and defaults of Hugging Face's config.json.
struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 32;  // Default: num_attention_heads.
  int64_t head_dim = 128;            // Default: hidden_size / num_attention_heads.
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<Llama3RopeScaling> rope_scaling = std::nullopt;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  double initializer_range = 0.02;

  friend bool operator==(const LlamaConfig&, const LlamaConfig&) = default;
};

/// ConfigError for sizes that do not fit together, e.g. attention heads that are not a multiple of
/// key-value heads, or an odd head size.
void check(const LlamaConfig& config);

/// Parses config.json. DataError for another architecture, activation or scaling of the rotary
/// embedding, because ignoring it would silently train another model. Ignores fields that do not
/// affect the shape, as Hugging Face does.
LlamaConfig parse_llama_config(std::string_view text, std::string_view origin);

/// The config.json of a Hugging Face folder; DataError if there is none.
LlamaConfig read_llama_config(const std::string& folder);

/// config.json as transformers reads it; `dtype` is the type of the weights in its names, e.g.
/// "float32".
std::string to_json(const LlamaConfig& config, std::string_view dtype);

}  // namespace tessera

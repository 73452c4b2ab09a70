#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The scaling of the rotary embedding to longer sequences in Llama 3.1 and later.
struct Llama3RopeScaling {
  double factor = 8;  // Low frequencies are divided by it.
  /// Frequencies of at most so many turns within the original length are low.
  double low_freq_factor = 1;
  /// Frequencies of at least so many turns within the original length are kept. Those between are
  /// divided by less.
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;  // The original length, in tokens.

  friend bool operator==(const Llama3RopeScaling&, const Llama3RopeScaling&) = default;
};

/// The shape of a Llama or of one of its relatives, with the names of Hugging Face's config.json.
/// The defaults are those of Llama. Families differ in these values only.
struct LlamaConfig {
  int64_t vocab_size = 32000;              // Token ids are below it.
  int64_t hidden_size = 4096;              // Width of the hidden states.
  int64_t intermediate_size = 11008;       // Width inside the feed-forward layers.
  int64_t num_hidden_layers = 32;          // Transformer blocks.
  int64_t num_attention_heads = 32;        // Query heads per layer.
  int64_t num_key_value_heads = 32;        // Default: num_attention_heads.
  int64_t head_dim = 128;                  // Default: hidden_size / num_attention_heads.
  int64_t max_position_embeddings = 2048;  // Longest sequence, in tokens; limits generation only.
  double rms_norm_eps = 1e-6;              // Added to the mean square in RMSNorm.
  double rope_theta = 10000;               // Base of the rotary embedding.
  std::optional<Llama3RopeScaling> rope_scaling = std::nullopt;  // Empty: not scaled.
  bool tie_word_embeddings = false;  // The output head shares the embedding's weights.
  bool attention_bias = false;       // A bias of all linear layers of the attention.
  bool mlp_bias = false;             // A bias of the feed-forward layers; not with experts.
  double initializer_range = 0.02;   // Standard deviation of the initial weights.
  std::string model_type = "llama";  // See model_families().
  int64_t sliding_window = 0;        // Positions that a token attends to; 0: all before it.
  bool qk_norm = false;              // An RMSNorm of each head of queries and keys.
  bool qkv_bias = false;             // A bias of queries, keys and values.

  // Mixtures of experts.
  int64_t num_experts = 0;              // Per layer; 0: a dense model.
  int64_t num_experts_per_tok = 2;      // Experts that each token visits.
  int64_t moe_intermediate_size = 0;    // Width of an expert; 0: intermediate_size.
  bool norm_topk_prob = true;           // Whether the weights of a token's experts add up to 1.
  double router_aux_loss_coef = 0.001;  // Factor of the load-balancing loss; 0: none.
  int64_t shared_expert_intermediate_size = 0;  // Of the expert that all tokens visit; 0: none.
  int64_t decoder_sparse_step = 1;              // Every so many layers have experts.
  std::vector<int64_t> mlp_only_layers{};       // Layers without experts.

  /// Whether a layer, counted from 0, has experts.
  bool has_experts(int64_t layer) const;
  /// The width of an expert.
  int64_t expert_size() const {
    return moe_intermediate_size > 0 ? moe_intermediate_size : intermediate_size;
  }
  /// Layers with experts; 0 for a dense model.
  int64_t num_sparse_layers() const;

  friend bool operator==(const LlamaConfig&, const LlamaConfig&) = default;
};

/// ConfigError for sizes that do not fit together, e.g. attention heads that are not a multiple of
/// key-value heads, an odd head size, or experts in a family that has none.
void check(const LlamaConfig& config);

/// Parses config.json; missing fields have the defaults of their family. DataError for another
/// architecture, activation or scaling of the rotary embedding, because ignoring it would silently
/// train another model. Ignores fields that do not affect the shape, as Hugging Face does.
LlamaConfig parse_llama_config(std::string_view text, std::string_view origin);

/// The config.json of a Hugging Face folder; DataError if there is none.
LlamaConfig read_llama_config(const std::string& folder);

/// config.json as transformers reads it; `dtype` is the type of the weights in its names, e.g.
/// "float32".
std::string to_json(const LlamaConfig& config, std::string_view dtype);

}  // namespace tessera

#include "tessera/format/llama_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/json_field.h"
#include "tessera/base/read_file.h"
#include "tessera/format/llama_size.h"
#include "tessera/format/model_family.h"

namespace tessera {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;  // Products of two sizes stay below 2^63.
constexpr int64_t kMostLayers = 1 << 16;
constexpr int64_t kMostExperts = 1 << 16;
constexpr int64_t kMostParameters = int64_t{1} << 50;  // Their bytes fit an int64_t.

// Keeps `value` if the field is missing or null.
void read(const JsonField& root, std::string_view key, int64_t& value) {
  if (root.has_value(key)) value = root.at(key).integer(1, kLargest);
}

void read(const JsonField& root, std::string_view key, double& value) {
  if (!root.has_value(key)) return;
  value = root.at(key).number();
  if (!(value > 0) || !std::isfinite(value)) root.at(key).refuse("a number above 0");
}

void read(const JsonField& root, std::string_view key, bool& value) {
  if (root.has_value(key)) value = root.at(key).boolean();
}

void expect_text(const JsonField& root, std::string_view key, std::string_view expected) {
  if (!root.has_value(key)) return;
  if (root.at(key).text() != expected) root.at(key).refuse(concat('"', expected, '"'));
}

const ModelFamily& family_of(const JsonField& root) {
  const std::string type = root.has_value("model_type") ? root.at("model_type").text() : "llama";
  for (const ModelFamily& family : model_families()) {
    if (family.model_type == type) return family;
  }
  std::vector<std::string> known;
  for (const ModelFamily& family : model_families()) {
    known.push_back(concat('"', family.model_type, '"'));
  }
  root.at("model_type").refuse(join(known, ", "));
}

// Older files call the field "type".
std::string rope_type(const JsonField& scaling) {
  for (const std::string_view key : {"rope_type", "type"}) {
    if (scaling.has(key)) return scaling.at(key).text();
  }
  return "default";
}

void read_scaling(const JsonField& scaling, LlamaConfig& config) {
  const std::string type = rope_type(scaling);
  if (type == "default") return;
  if (type != "llama3") scaling.refuse("a rope_type of \"default\" or \"llama3\"");
  Llama3RopeScaling llama3;
  read(scaling, "factor", llama3.factor);
  read(scaling, "low_freq_factor", llama3.low_freq_factor);
  read(scaling, "high_freq_factor", llama3.high_freq_factor);
  read(scaling, "original_max_position_embeddings", llama3.original_max_position_embeddings);
  config.rope_scaling = llama3;
}

// Newer files have rope_parameters, older ones rope_theta and rope_scaling.
void read_rope(const JsonField& root, LlamaConfig& config) {
  read(root, "rope_theta", config.rope_theta);
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!root.has_value(key)) continue;
    const JsonField rope = root.at(key);
    if (!rope.is_object()) rope.refuse("an object");
    read(rope, "rope_theta", config.rope_theta);
    read_scaling(rope, config);
  }
}

// A file may leave the number out, or say null: as many as heads.
void read_key_value_heads(const JsonField& root, const ModelFamily& family, LlamaConfig& config) {
  const bool stays = family.num_key_value_heads > 0 && !root.has("num_key_value_heads");
  config.num_key_value_heads = stays ? family.num_key_value_heads : config.num_attention_heads;
  read(root, "num_key_value_heads", config.num_key_value_heads);
}

void read_head_size(const JsonField& root, const ModelFamily& family, LlamaConfig& config) {
  const bool stays = family.head_dim > 0 && !root.has("head_dim");
  config.head_dim = stays ? family.head_dim : config.hidden_size / config.num_attention_heads;
  read(root, "head_dim", config.head_dim);
}

// Windows of some of the layers would train another model.
void read_window(const JsonField& root, const ModelFamily& family, LlamaConfig& config) {
  if (root.has_value("use_sliding_window") && root.at("use_sliding_window").boolean()) {
    root.at("use_sliding_window").refuse("false");
  }
  if (!family.has_window) return;
  if (root.has("sliding_window")) config.sliding_window = 0;  // null: none.
  read(root, "sliding_window", config.sliding_window);
}

void read_experts(const JsonField& root, const ModelFamily& family, LlamaConfig& config) {
  if (family.experts.count_key.empty()) return;
  read(root, family.experts.count_key, config.num_experts);
  read(root, "num_experts_per_tok", config.num_experts_per_tok);
  if (root.has_value("router_aux_loss_coef")) {
    config.router_aux_loss_coef = root.at("router_aux_loss_coef").number();
  }
  if (root.has_value("router_jitter_noise") && root.at("router_jitter_noise").number() != 0) {
    root.at("router_jitter_noise").refuse("0");
  }
  if (!family.experts.has_dense_layers) return;
  read(root, "moe_intermediate_size", config.moe_intermediate_size);
  read(root, "norm_topk_prob", config.norm_topk_prob);
  read(root, "decoder_sparse_step", config.decoder_sparse_step);
  if (root.has_value("mlp_only_layers")) {
    config.mlp_only_layers = root.at("mlp_only_layers").list([](const JsonField& layer) {
      return layer.integer(0, kMostLayers);
    });
  }
  if (!family.experts.has_shared) return;
  read(root, "shared_expert_intermediate_size", config.shared_expert_intermediate_size);
}

void check_experts(const LlamaConfig& config, const ModelFamily& family) {
  TSR_CHECK(config.num_experts >= 0 && config.moe_intermediate_size >= 0 &&
                config.num_experts <= kMostExperts && config.moe_intermediate_size <= kLargest,
            "num_experts=", config.num_experts,
            ", moe_intermediate_size=", config.moe_intermediate_size, "; they must be from 0 to ",
            kMostExperts, " and ", kLargest);
  const int64_t shared = config.shared_expert_intermediate_size;
  TSR_CHECK(0 <= shared && shared <= kLargest && (shared > 0) == family.experts.has_shared,
            "shared_expert_intermediate_size=", shared, ", but models of type ", config.model_type,
            family.experts.has_shared
                ? concat(" have a shared expert; choose from 1 to ", kLargest)
                : " have no shared expert; begin with a preset that has, e.g. tiny-qwen2-moe");
  if (config.num_experts == 0) {
    TSR_CHECK(family.experts.count_key.empty(), "num_experts=0, but a model of type ",
              config.model_type, " has experts; choose at least 1");
    return;
  }
  TSR_CHECK(!family.experts.count_key.empty(), "num_experts=", config.num_experts,
            ", but models of type ", config.model_type,
            " have no experts; begin with a preset that has, e.g. tiny-moe");
  TSR_CHECK(1 <= config.num_experts_per_tok && config.num_experts_per_tok <= config.num_experts,
            "num_experts_per_tok=", config.num_experts_per_tok,
            ", but a token can visit from 1 to num_experts=", config.num_experts, " experts");
  TSR_CHECK(config.decoder_sparse_step >= 1, "decoder_sparse_step=", config.decoder_sparse_step,
            "; it must be at least 1");
  TSR_CHECK(config.router_aux_loss_coef >= 0 && std::isfinite(config.router_aux_loss_coef),
            "router_aux_loss_coef=", config.router_aux_loss_coef, "; it must be at least 0");
  TSR_CHECK(!config.mlp_bias, "mlp_bias=true, but experts have no bias; leave it out");
}

void write_experts(const LlamaConfig& config, const ModelFamily& family,
                   nlohmann::ordered_json& json) {
  json[std::string(family.experts.count_key)] = config.num_experts;
  json["num_experts_per_tok"] = config.num_experts_per_tok;
  json["router_aux_loss_coef"] = config.router_aux_loss_coef;
  if (!family.experts.has_dense_layers) {
    json["intermediate_size"] = config.expert_size();
    return;
  }
  json["moe_intermediate_size"] = config.expert_size();
  json["norm_topk_prob"] = config.norm_topk_prob;
  json["decoder_sparse_step"] = config.decoder_sparse_step;
  json["mlp_only_layers"] = config.mlp_only_layers;
  if (family.experts.has_shared) {
    json["shared_expert_intermediate_size"] = config.shared_expert_intermediate_size;
  }
}

void check_sizes(const LlamaConfig& config) {
  const std::array<std::pair<const char*, int64_t>, 7> sizes{
      {{"vocab_size", config.vocab_size},
       {"hidden_size", config.hidden_size},
       {"intermediate_size", config.intermediate_size},
       {"num_hidden_layers", config.num_hidden_layers},
       {"num_attention_heads", config.num_attention_heads},
       {"num_key_value_heads", config.num_key_value_heads},
       {"head_dim", config.head_dim}}};
  for (const auto& [name, size] : sizes) {
    TSR_CHECK(size > 0 && size <= kLargest, name, "=", size, "; sizes must be from 1 to ",
              kLargest);
  }
  TSR_CHECK(config.num_hidden_layers <= kMostLayers, "num_hidden_layers=", config.num_hidden_layers,
            "; it must be from 1 to ", kMostLayers);
  const int64_t parameters = parameter_count(config);
  TSR_CHECK(parameters <= kMostParameters, "these sizes give ", with_thousands(parameters),
            " parameters; at most ", with_thousands(kMostParameters), " are allowed");
}

}  // namespace

bool LlamaConfig::has_experts(int64_t layer) const {
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::ranges::find(mlp_only_layers, layer) == mlp_only_layers.end();
}

int64_t LlamaConfig::num_sparse_layers() const {
  if (num_experts == 0) return 0;
  const auto is_sparse = [&](int64_t layer) {
    return layer < num_hidden_layers && (layer + 1) % decoder_sparse_step == 0;
  };
  const std::set<int64_t> dense(mlp_only_layers.begin(), mlp_only_layers.end());
  return num_hidden_layers / decoder_sparse_step - std::ranges::count_if(dense, is_sparse);
}

void check(const LlamaConfig& config) {
  const ModelFamily& family = model_family(config.model_type);
  check_experts(config, family);
  check_sizes(config);
  TSR_CHECK(config.sliding_window >= 0, "sliding_window=", config.sliding_window,
            "; it must be at least 0");
  TSR_CHECK(config.sliding_window == 0 || family.has_window,
            "sliding_window=", config.sliding_window, ", but models of type ", config.model_type,
            " have none; leave it out");
  TSR_CHECK(config.num_attention_heads % config.num_key_value_heads == 0,
            "num_attention_heads=", config.num_attention_heads,
            " is not a multiple of num_key_value_heads=", config.num_key_value_heads,
            "; every key-value head must serve equally many heads");
  TSR_CHECK(config.head_dim % 2 == 0, "head_dim=", config.head_dim,
            " is odd; the rotary embedding rotates pairs, so choose an even one");
  TSR_CHECK(!config.qkv_bias || family.has_qkv_bias, "qkv_bias=true, but models of type ",
            config.model_type, " have none; leave it out");
  // transformers refuses other heads and knows no other bias.
  TSR_CHECK(
      !family.has_qkv_bias || config.head_dim * config.num_attention_heads == config.hidden_size,
      "head_dim=", config.head_dim, " times num_attention_heads=", config.num_attention_heads,
      " is not hidden_size=", config.hidden_size, ", as models of type ", config.model_type,
      " need it");
  TSR_CHECK(!family.has_qkv_bias || !config.attention_bias,
            "attention_bias=true, but models of type ", config.model_type,
            " have qkv_bias instead; leave it out");
  if (const auto& scaling = config.rope_scaling) {
    TSR_CHECK(scaling->high_freq_factor > scaling->low_freq_factor,
              "high_freq_factor=", scaling->high_freq_factor,
              " must be above low_freq_factor=", scaling->low_freq_factor);
  }
}

LlamaConfig parse_llama_config(std::string_view text, std::string_view origin) {
  const JsonSource source{.origin = origin, .what = "config", .deepest = 16};
  const nlohmann::json document = parse_json(text, source);
  const JsonField root(document, source);
  if (!root.is_object()) root.refuse("an object");
  const ModelFamily& family = family_of(root);
  expect_text(root, "hidden_act", "silu");
  LlamaConfig config = family.defaults();
  read(root, "vocab_size", config.vocab_size);
  read(root, "hidden_size", config.hidden_size);
  read(root, "intermediate_size", config.intermediate_size);
  read(root, "num_hidden_layers", config.num_hidden_layers);
  read(root, "num_attention_heads", config.num_attention_heads);
  read_key_value_heads(root, family, config);
  read_head_size(root, family, config);
  read(root, "max_position_embeddings", config.max_position_embeddings);
  read(root, "rms_norm_eps", config.rms_norm_eps);
  read(root, "tie_word_embeddings", config.tie_word_embeddings);
  read(root, "attention_bias", config.attention_bias);
  read(root, "mlp_bias", config.mlp_bias);
  read(root, "initializer_range", config.initializer_range);
  if (family.has_qkv_bias) read(root, "qkv_bias", config.qkv_bias);
  read_rope(root, config);
  read_window(root, family, config);
  read_experts(root, family, config);
  try {
    check(config);
  } catch (const ConfigError& error) {
    throw DataError(concat(origin, ": ", error.what()));
  }
  return config;
}

LlamaConfig read_llama_config(const std::string& folder) {
  constexpr size_t kMost = size_t{1} << 20;  // Far more than any config.json has.
  const std::string path = std::filesystem::path(folder) / "config.json";
  return parse_llama_config(read_file(path, kMost), path);
}

std::string to_json(const LlamaConfig& config, std::string_view dtype) {
  const ModelFamily& family = model_family(config.model_type);
  nlohmann::ordered_json json{
      {"architectures", {family.architecture}},
      {"model_type", config.model_type},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"max_position_embeddings", config.max_position_embeddings},
      {"rms_norm_eps", config.rms_norm_eps},
      {"rope_theta", config.rope_theta},
      {"rope_scaling", nullptr},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"attention_bias", config.attention_bias},
      {"mlp_bias", config.mlp_bias},
      {"initializer_range", config.initializer_range},
      {"torch_dtype", dtype},
  };
  if (const auto& scaling = config.rope_scaling) {
    json["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", scaling->factor},
        {"low_freq_factor", scaling->low_freq_factor},
        {"high_freq_factor", scaling->high_freq_factor},
        {"original_max_position_embeddings", scaling->original_max_position_embeddings}};
  }
  if (family.has_window) {
    json["sliding_window"] =
        config.sliding_window > 0 ? nlohmann::ordered_json(config.sliding_window) : nullptr;
  }
  if (family.has_qkv_bias) json["qkv_bias"] = config.qkv_bias;
  if (config.num_experts > 0) write_experts(config, family, json);
  return json.dump(2) + "\n";
}

}  // namespace tessera

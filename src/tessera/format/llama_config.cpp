#include "tessera/format/llama_config.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/json_field.h"
#include "tessera/base/read_file.h"
#include "tessera/format/llama_size.h"

namespace tessera {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;  // Products of two sizes stay below 2^63.
constexpr int64_t kMostLayers = 1 << 16;
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

void check(const LlamaConfig& config) {
  check_sizes(config);
  TSR_CHECK(config.num_attention_heads % config.num_key_value_heads == 0,
            "num_attention_heads=", config.num_attention_heads,
            " is not a multiple of num_key_value_heads=", config.num_key_value_heads,
            "; every key-value head must serve equally many heads");
  TSR_CHECK(config.head_dim % 2 == 0, "head_dim=", config.head_dim,
            " is odd; the rotary embedding rotates pairs, so choose an even one");
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
  expect_text(root, "model_type", "llama");
  expect_text(root, "hidden_act", "silu");
  LlamaConfig config;
  read(root, "vocab_size", config.vocab_size);
  read(root, "hidden_size", config.hidden_size);
  read(root, "intermediate_size", config.intermediate_size);
  read(root, "num_hidden_layers", config.num_hidden_layers);
  read(root, "num_attention_heads", config.num_attention_heads);
  config.num_key_value_heads = config.num_attention_heads;
  read(root, "num_key_value_heads", config.num_key_value_heads);
  config.head_dim = config.hidden_size / config.num_attention_heads;
  read(root, "head_dim", config.head_dim);
  read(root, "max_position_embeddings", config.max_position_embeddings);
  read(root, "rms_norm_eps", config.rms_norm_eps);
  read(root, "tie_word_embeddings", config.tie_word_embeddings);
  read(root, "attention_bias", config.attention_bias);
  read(root, "mlp_bias", config.mlp_bias);
  read(root, "initializer_range", config.initializer_range);
  read_rope(root, config);
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
  nlohmann::ordered_json json{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
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
  return json.dump(2) + "\n";
}

}  // namespace tessera

// NeMo's configurations as JSON, by the names of their fields.
#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>

#include "tessera/base/check.h"
#include "tessera/plan/nemo/config.h"

namespace tessera::nemo {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 8;  // Levels; a configuration has four.

template <class T, class Wanted>
concept Is = std::same_as<std::remove_const_t<T>, Wanted>;

/// What a text may be; anything where there are none.
using Choices = std::vector<std::string>;

const Choices& dtypes() {  // As in the enum.
  static const Choices kNames{"float64", "float32", "float16", "bfloat16"};
  return kNames;
}
const Choices& scopes() {
  static const Choices kNames{"all", "language", "vision", "audio", "multimodal"};
  return kNames;
}

// The fields of each configuration, for reading and for writing: visit(name, field, choices).

void each_field(Is<MixedPrecisionPolicy> auto& policy, const auto& visit) {
  visit("param_dtype", policy.param_dtype);
  visit("reduce_dtype", policy.reduce_dtype);
  visit("output_dtype", policy.output_dtype);
  visit("cast_forward_inputs", policy.cast_forward_inputs);
}

void each_field(Is<CPUOffloadPolicy> auto& policy, const auto& visit) {
  visit("pin_memory", policy.pin_memory);
}

void each_field(Is<FrameShardingConfig> auto& config, const auto& visit) {
  visit("enabled", config.enabled);
  visit("mesh_dims", config.mesh_dims, Choices{"cp"});
  visit("min_tokens", config.min_tokens);
  visit("min_frames", config.min_frames);
  visit("min_local_patch_rows", config.min_local_patch_rows);
  visit("cost_alpha", config.cost_alpha);
}

void each_field(Is<MultimodalVisionConfig> auto& config, const auto& visit) {
  visit("frame_sharding", config.frame_sharding);
}

void each_field(Is<MultimodalDistributedConfig> auto& config, const auto& visit) {
  visit("frozen_sharding", config.frozen_sharding, Choices{"root", "per_layer", "replicate"});
  visit("vision", config.vision);
}

void each_field(Is<FSDP2Config> auto& config, const auto& visit) {
  visit("sequence_parallel", config.sequence_parallel);
  visit("tp_plan", config.tp_plan);
  visit("patch_is_packed_sequence", config.patch_is_packed_sequence);
  visit("mp_policy", config.mp_policy);
  visit("offload_policy", config.offload_policy);
  visit("autocast_dtype", config.autocast_dtype);
  visit("activation_checkpointing", config.activation_checkpointing);
  visit("activation_checkpointing_scope", config.activation_checkpointing_scope, scopes());
  visit("defer_fsdp_grad_sync", config.defer_fsdp_grad_sync);
  visit("reshard_after_forward", config.reshard_after_forward);
  visit("enable_async_tensor_parallel", config.enable_async_tensor_parallel);
  visit("enable_compile", config.enable_compile);
  visit("enable_fsdp2_prefetch", config.enable_fsdp2_prefetch);
  visit("fsdp2_backward_prefetch_depth", config.fsdp2_backward_prefetch_depth);
  visit("fsdp2_forward_prefetch_depth", config.fsdp2_forward_prefetch_depth);
  visit("multimodal", config.multimodal);
  visit("backend", config.backend, Choices{"nccl", "gloo"});
}

void each_field(Is<MegatronFSDPConfig> auto& config, const auto& visit) {
  visit("megatron_fsdp_unit_modules", config.megatron_fsdp_unit_modules);
  visit("zero_dp_strategy", config.zero_dp_strategy);
  visit("init_fsdp_with_meta_device", config.init_fsdp_with_meta_device);
  visit("grad_reduce_in_fp32", config.grad_reduce_in_fp32);
  visit("preserve_fp32_weights", config.preserve_fp32_weights);
  visit("overlap_grad_reduce", config.overlap_grad_reduce);
  visit("overlap_param_gather", config.overlap_param_gather);
  visit("check_for_nan_in_grad", config.check_for_nan_in_grad);
  visit("report_nan_in_param_grad", config.report_nan_in_param_grad);
  visit("average_in_collective", config.average_in_collective);
  visit("disable_bucketing", config.disable_bucketing);
  visit("calculate_per_token_loss", config.calculate_per_token_loss);
  visit("keep_fp8_transpose_cache", config.keep_fp8_transpose_cache);
  visit("nccl_ub", config.nccl_ub);
  visit("fsdp_double_buffer", config.fsdp_double_buffer);
  visit("activation_checkpointing", config.activation_checkpointing);
  visit("backend", config.backend, Choices{"nccl", "gloo"});
}

void each_field(Is<DDPConfig> auto& config, const auto& visit) {
  visit("activation_checkpointing", config.activation_checkpointing);
  visit("activation_checkpointing_scope", config.activation_checkpointing_scope, scopes());
  visit("broadcast_buffers", config.broadcast_buffers);
  visit("find_unused_parameters", config.find_unused_parameters);
  visit("static_graph", config.static_graph);
  visit("bucket_cap_mb", config.bucket_cap_mb);
  visit("gradient_as_bucket_view", config.gradient_as_bucket_view);
  visit("autocast_dtype", config.autocast_dtype);
  visit("backend", config.backend, Choices{"nccl", "gloo"});
}

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
Json written(const T& value) {
  if constexpr (std::same_as<T, ActivationCheckpointing>) {
    if (value == ActivationCheckpointing::kOff) return false;
    return value == ActivationCheckpointing::kFull ? "full" : "selective";
  } else if constexpr (std::same_as<T, Dtype>) {
    return dtypes()[static_cast<size_t>(value)];
  } else if constexpr (kIsOptional<T>) {
    return value ? written(*value) : Json();
  } else if constexpr (std::is_aggregate_v<T>) {
    Json object;
    each_field(value, [&](const char* name, const auto& field, const Choices& = {}) {
      object[name] = written(field);
    });
    return object;
  } else {
    return value;
  }
}

std::string in_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// One value of the document, which knows its place for messages.
struct Value {
  const Json& json;
  std::string place;

  [[noreturn]] void refuse(std::string_view expected) const {
    throw ConfigError(concat(place, " is ", in_text(json), "; expected ", expected));
  }
  void check(bool fits, std::string_view expected) const {
    if (!fits) refuse(expected);
  }
};

std::string read_text(const Value& value, const Choices& choices) {
  value.check(value.json.is_string(), choices.empty() ? "text" : join(choices, ", "));
  std::string text = value.json;
  if (choices.empty()) return text;
  text = to_lower(text);
  TSR_CHECK(std::ranges::find(choices, text) != choices.end(), value.place, " '", text,
            "' is unknown; choose ", join(choices, ", "), did_you_mean(text, choices));
  return text;
}

// A list, or its texts joined by + or a comma where they are to be chosen from.
std::vector<std::string> read_texts(const Value& value, const Choices& choices) {
  Json list = value.json;
  if (list.is_string() && !choices.empty()) {
    std::string text = list;
    std::ranges::replace(text, '+', ',');
    list = Json::array();
    for (const std::string_view part : split(text, ',')) list.push_back(part);
  }
  value.check(list.is_array(), "a list of texts");
  std::vector<std::string> texts;
  for (const Json& entry : list) texts.push_back(read_text({entry, value.place}, choices));
  const bool has_all = std::ranges::find(texts, "all") != texts.end();
  value.check(choices != scopes() || !has_all || texts.size() == 1, "all alone, or others");
  return texts;
}

ActivationCheckpointing read_mode(const Value& value) {
  if (value.json == false) return ActivationCheckpointing::kOff;
  if (value.json == true || value.json == "full") return ActivationCheckpointing::kFull;
  value.check(value.json == "selective", "true, false, \"full\" or \"selective\"");
  return ActivationCheckpointing::kSelective;
}

int64_t read_count(const Value& value) {
  const Json& json = value.json;
  const bool fits = json.is_number_integer() && json >= 0 && json <= INT64_MAX;
  value.check(fits, "a whole number of at least 0");
  return json;
}

// Nothing where that can be said, otherwise the default.
template <class T>
T read_null(const T& field) {
  if constexpr (kIsOptional<T>) {
    return std::nullopt;
  } else {
    return field;
  }
}

template <class Config>
Config read_fields(const Value& value);

template <class T>
T read(const Value& value, const Choices& choices) {
  const Json& json = value.json;
  if constexpr (kIsOptional<T>) {
    using Inner = typename T::value_type;
    if (std::same_as<Inner, int64_t> && json == "auto") return std::nullopt;
    return read<Inner>(value, choices);
  } else if constexpr (std::same_as<T, bool>) {
    value.check(json.is_boolean(), "true or false");
    return json;
  } else if constexpr (std::same_as<T, int64_t>) {
    return read_count(value);
  } else if constexpr (std::same_as<T, double>) {
    value.check(json.is_number() && json > 0, "a number above 0");
    return json;
  } else if constexpr (std::same_as<T, std::string>) {
    return read_text(value, choices);
  } else if constexpr (std::same_as<T, std::vector<std::string>>) {
    return read_texts(value, choices);
  } else if constexpr (std::same_as<T, ActivationCheckpointing>) {
    return read_mode(value);
  } else if constexpr (std::same_as<T, Dtype>) {
    const std::string name = read_text(value, dtypes());
    return static_cast<Dtype>(std::ranges::find(dtypes(), name) - dtypes().begin());
  } else {
    return read_fields<T>(value);
  }
}

template <class Config>
Config read_fields(const Value& value) {
  value.check(value.json.is_object(), "an object of fields");
  Config config;
  std::vector<std::string> known;
  each_field(config, [&](const char* name, auto& field, const Choices& choices = {}) {
    known.emplace_back(name);
    const auto at = value.json.find(name);
    if (at == value.json.end()) return;
    using Field = std::remove_cvref_t<decltype(field)>;
    field = at->is_null() ? read_null(field)
                          : read<Field>({*at, concat(value.place, ".", name)}, choices);
  });
  for (const auto& [key, unused] : value.json.items()) {
    TSR_CHECK(std::ranges::find(known, key) != known.end(), value.place, " has no field '", key,
              "'", did_you_mean(key, known));
  }
  return config;
}

Json parsed(std::string_view text) {
  const auto watch_depth = [](int depth, Json::parse_event_t, const Json&) {
    TSR_CHECK(depth <= kDeepest, "the configuration is nested more than ", kDeepest,
              " levels deep, which none is");
    return true;
  };
  try {
    return Json::parse(text, watch_depth);
  } catch (const Json::exception& error) {
    throw ConfigError(concat("the configuration is broken JSON: ", error.what()));
  }
}

}  // namespace

std::string to_json(const DistributedConfig& config) {
  const Json fields = std::visit([](const auto& strategy) { return written(strategy); }, config);
  Json object{{"strategy", strategy_name(config)}};
  object.update(fields);
  return in_text(object);
}

DistributedConfig config_from_json(std::string_view json) {
  Json object = parsed(json);
  TSR_CHECK(object.is_object(), "the configuration is no JSON object; write {\"strategy\": …}");
  std::string strategy = "fsdp2";
  if (object.contains("strategy")) strategy = read_text({object["strategy"], "strategy"}, {});
  object.erase("strategy");
  const auto read_as = [&]<class Config>(const Config&) -> DistributedConfig {
    return read_fields<Config>({object, strategy});
  };
  return std::visit(read_as, strategy_named(strategy));
}

}  // namespace tessera::nemo

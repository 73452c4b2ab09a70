// NeMo's configurations as JSON, by the names of their fields.
#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>

#include "tessera/base/check.h"
#include "tessera/base/json_field.h"
#include "tessera/plan/nemo/config.h"

namespace tessera::nemo {
namespace {

using Json = nlohmann::ordered_json;  // Writes fields in their order.

template <class T, class Wanted>
concept Is = std::same_as<std::remove_const_t<T>, Wanted>;

/// The allowed texts; empty: any.
using Choices = std::vector<std::string>;

const Choices& dtypes() {  // In the order of the enum.
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

void check_choice(const JsonField& field, const std::string& text, const Choices& choices) {
  TSR_CHECK(std::ranges::find(choices, text) != choices.end(), field.path(), " '", text,
            "' is unknown; choose ", join(choices, ", "), did_you_mean(text, choices));
}

std::string read_text(const JsonField& field, const Choices& choices) {
  if (choices.empty()) return field.raw_text();
  field.check(field.value().is_string(), join(choices, ", "));
  std::string text = to_lower(field.raw_text());
  check_choice(field, text, choices);
  return text;
}

// Also accepts one text, joined by + or commas.
std::vector<std::string> read_chosen(const JsonField& field, const Choices& choices) {
  std::string text = to_lower(field.raw_text());
  std::ranges::replace(text, '+', ',');
  std::vector<std::string> texts;
  for (const std::string_view part : split(text, ',')) {
    check_choice(field, texts.emplace_back(part), choices);
  }
  return texts;
}

std::vector<std::string> read_texts(const JsonField& field, const Choices& choices) {
  const bool joined = field.value().is_string() && !choices.empty();
  field.check(joined || field.value().is_array(), "a list of strings");
  const auto texts =
      joined ? read_chosen(field, choices)
             : field.list([&](const JsonField& entry) { return read_text(entry, choices); });
  const bool has_all = std::ranges::find(texts, "all") != texts.end();
  field.check(choices != scopes() || !has_all || texts.size() == 1, "all alone, or others");
  return texts;
}

ActivationCheckpointing read_mode(const JsonField& field) {
  const auto& value = field.value();
  if (value == false) return ActivationCheckpointing::kOff;
  if (value == true || value == "full") return ActivationCheckpointing::kFull;
  field.check(value == "selective", "true, false, \"full\" or \"selective\"");
  return ActivationCheckpointing::kSelective;
}

double read_positive(const JsonField& field) {
  field.check(field.value().is_number() && field.value() > 0, "a number above 0");
  return field.number();
}

// Nothing if T can be empty, otherwise the default.
template <class T>
T read_null(const T& field) {
  if constexpr (kIsOptional<T>) {
    return std::nullopt;
  } else {
    return field;
  }
}

template <class Config>
Config read_fields(const JsonField& object);

template <class T>
T read(const JsonField& field, const Choices& choices) {
  if constexpr (kIsOptional<T>) {
    using Inner = typename T::value_type;
    if (std::same_as<Inner, int64_t> && field.value() == "auto") return std::nullopt;
    return read<Inner>(field, choices);
  } else if constexpr (std::same_as<T, bool>) {
    return field.boolean();
  } else if constexpr (std::same_as<T, int64_t>) {
    return field.integer(0);
  } else if constexpr (std::same_as<T, double>) {
    return read_positive(field);
  } else if constexpr (std::same_as<T, std::string>) {
    return read_text(field, choices);
  } else if constexpr (std::same_as<T, std::vector<std::string>>) {
    return read_texts(field, choices);
  } else if constexpr (std::same_as<T, ActivationCheckpointing>) {
    return read_mode(field);
  } else if constexpr (std::same_as<T, Dtype>) {
    const std::string name = read_text(field, dtypes());
    return static_cast<Dtype>(std::ranges::find(dtypes(), name) - dtypes().begin());
  } else {
    return read_fields<T>(field);
  }
}

template <class Config>
Config read_fields(const JsonField& object) {
  object.check(object.is_object(), "an object of fields");
  Config config;
  std::vector<std::string> known;
  each_field(config, [&](const char* name, auto& field, const Choices& choices = {}) {
    known.emplace_back(name);
    if (!object.has(name)) return;
    using Field = std::remove_cvref_t<decltype(field)>;
    field = object.has_value(name) ? read<Field>(object.at(name), choices) : read_null(field);
  });
  object.check_keys(known);
  return config;
}

}  // namespace

std::string to_json(const DistributedConfig& config) {
  const Json fields = std::visit([](const auto& strategy) { return written(strategy); }, config);
  Json object{{"strategy", strategy_name(config)}};
  object.update(fields);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

DistributedConfig config_from_json(std::string_view json) {
  JsonSource source{
      .origin = "the configuration", .what = "configuration", .author = JsonAuthor::kCaller};
  nlohmann::json document = parse_json(json, source);
  TSR_CHECK(document.is_object(),
            "the configuration is not a JSON object; write {\"strategy\": …}");
  source.origin = "";
  std::string strategy = "fsdp2";
  if (document.contains("strategy")) {
    strategy = JsonField(document, source).at("strategy").raw_text();
    document.erase("strategy");
  }
  source.root = strategy;
  const auto read_as = [&]<class Config>(const Config&) -> DistributedConfig {
    return read_fields<Config>(JsonField(document, source));
  };
  return std::visit(read_as, strategy_named(strategy));
}

}  // namespace tessera::nemo

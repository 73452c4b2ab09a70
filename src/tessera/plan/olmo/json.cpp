#include "tessera/plan/olmo/json.h"

#include <nlohmann/json.hpp>

#include "tessera/base/check.h"
#include "tessera/base/json_field.h"

namespace tessera::olmo {
namespace {

using Json = nlohmann::json;

template <class Config>
Json json_of(const Config& config) {
  Json json;
  to_json(json, config);
  return json;
}

template <class Enum>
Json text_or_null(const std::optional<Enum>& value) {
  return value ? Json(to_string(*value)) : Json();
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

void read(const JsonField& field, int64_t& value) {
  value = field.integer();
}

void read(const JsonField& field, bool& value) {
  value = field.boolean();
}

void read(const JsonField& field, std::vector<int64_t>& values) {
  values = field.list([](const JsonField& element) { return element.integer(); });
}

template <class Enum>
  requires std::is_enum_v<Enum>
void read(const JsonField& field, Enum& value) {
  const std::string text = field.raw_text();
  try {
    value = from_string<Enum>(text);
  } catch (const ConfigError& error) {
    throw ConfigError(concat(field.path(), ": ", error.what()));
  }
}

void read(const JsonField& object, DataParallelConfig& config);
void read(const JsonField& object, TensorParallelConfig& config);
void read(const JsonField& object, ContextParallelConfig& config);
void read(const JsonField& object, RingContextParallelStyle& style);
void read(const JsonField& object, UlyssesContextParallelStyle& style);
void read(const JsonField& object, ExpertParallelConfig& config);
void read(const JsonField& object, PipelineParallelConfig& config);

template <class T>
void read(const JsonField& field, std::optional<T>& value) {
  read(field, value.emplace());
}

/// The fields of one configuration, read one by one.
class Fields {
 public:
  explicit Fields(const JsonField& object) : object_(object) {
    object.check(object.is_object(), "an object with its fields");
  }

  template <class T>
  Fields& required(const char* name, T& value) {
    TSR_CHECK(object_.has_value(name), object_.path(), ".", name, " is missing; give it a value");
    return optional(name, value);
  }

  template <class T>
  Fields& optional(const char* name, T& value) {
    known_.emplace_back(name);
    if (object_.has_value(name)) read(object_.at(name), value);
    return *this;
  }

  void check_keys() const { object_.check_keys(known_); }

 private:
  const JsonField& object_;
  std::vector<std::string> known_;
};

void read(const JsonField& object, DataParallelConfig& config) {
  Fields(object)
      .required("name", config.name)
      .optional("param_dtype", config.param_dtype)
      .optional("reduce_dtype", config.reduce_dtype)
      .optional("num_replicas", config.num_replicas)
      .optional("shard_degree", config.shard_degree)
      .check_keys();
}

void read(const JsonField& object, TensorParallelConfig& config) {
  Fields(object)
      .required("degree", config.degree)
      .optional("enable_async", config.enable_async)
      .check_keys();
}

void read(const JsonField& object, ContextParallelConfig& config) {
  Fields(object).required("degree", config.degree).check_keys();
}

void read(const JsonField& object, RingContextParallelStyle& style) {
  Fields(object)
      .optional("load_balancer", style.load_balancer)
      .optional("head_stride", style.head_stride)
      .check_keys();
}

void read(const JsonField& object, UlyssesContextParallelStyle&) {
  Fields(object).check_keys();
}

void read(const JsonField& object, TransformerContextParallelConfig& config) {
  Fields(object)
      .required("degree", config.degree)
      .optional("ring", config.ring)
      .optional("uly", config.uly)
      .check_keys();
}

void read(const JsonField& object, ExpertParallelConfig& config) {
  Fields(object).required("degree", config.degree).check_keys();
}

Fields pipeline_fields(const JsonField& object, PipelineParallelConfig& config) {
  Fields fields(object);
  fields.required("degree", config.degree)
      .optional("schedule", config.schedule)
      .optional("style", config.style);
  return fields;
}

void read(const JsonField& object, PipelineParallelConfig& config) {
  pipeline_fields(object, config).check_keys();
}

void read(const JsonField& object, TransformerPipelineParallelConfig& config) {
  pipeline_fields(object, config).optional("split_points", config.split_points).check_keys();
}

void read(const JsonField& object, WorldMeshConfig& config) {
  Fields(object)
      .optional("dp", config.dp)
      .optional("tp", config.tp)
      .optional("cp", config.cp)
      .optional("pp", config.pp)
      .optional("ep", config.ep)
      .check_keys();
}

template <class Config>
void read_document(const Json& json, const char* name, Config& config) {
  const JsonSource source{
      .origin = "", .what = "configuration", .root = name, .author = JsonAuthor::kCaller};
  config = {};
  read(JsonField(json, source), config);
}

}  // namespace

void to_json(Json& json, const DataParallelConfig& config) {
  json = {{"name", to_string(config.name)},
          {"param_dtype", text_or_null(config.param_dtype)},
          {"reduce_dtype", to_string(config.reduce_dtype)},
          {"num_replicas", or_null(config.num_replicas)},
          {"shard_degree", or_null(config.shard_degree)}};
}

void to_json(Json& json, const TensorParallelConfig& config) {
  json = {{"degree", config.degree}, {"enable_async", config.enable_async}};
}

void to_json(Json& json, const ContextParallelConfig& config) {
  json = {{"degree", config.degree}};
}

void to_json(Json& json, const TransformerContextParallelConfig& config) {
  json = {{"degree", config.degree}, {"ring", Json()}, {"uly", Json()}};
  if (config.ring) {
    json["ring"] = {{"load_balancer", to_string(config.ring->load_balancer)},
                    {"head_stride", config.ring->head_stride}};
  }
  if (config.uly) json["uly"] = Json::object();
}

void to_json(Json& json, const ExpertParallelConfig& config) {
  json = {{"degree", config.degree}};
}

void to_json(Json& json, const PipelineParallelConfig& config) {
  json = {{"degree", config.degree},
          {"schedule", to_string(config.schedule)},
          {"style", text_or_null(config.style)}};
}

void to_json(Json& json, const TransformerPipelineParallelConfig& config) {
  to_json(json, static_cast<const PipelineParallelConfig&>(config));
  json["split_points"] = or_null(config.split_points);
}

void to_json(Json& json, const WorldMeshConfig& config) {
  const auto nested = [](const auto& part) { return part ? json_of(*part) : Json(); };
  json = {{"dp", nested(config.dp)},
          {"tp", nested(config.tp)},
          {"cp", nested(config.cp)},
          {"pp", nested(config.pp)},
          {"ep", nested(config.ep)}};
}

void from_json(const Json& json, DataParallelConfig& config) {
  read_document(json, "DataParallelConfig", config);
}

void from_json(const Json& json, TensorParallelConfig& config) {
  read_document(json, "TensorParallelConfig", config);
}

void from_json(const Json& json, ContextParallelConfig& config) {
  read_document(json, "ContextParallelConfig", config);
}

void from_json(const Json& json, TransformerContextParallelConfig& config) {
  read_document(json, "TransformerContextParallelConfig", config);
}

void from_json(const Json& json, ExpertParallelConfig& config) {
  read_document(json, "ExpertParallelConfig", config);
}

void from_json(const Json& json, PipelineParallelConfig& config) {
  read_document(json, "PipelineParallelConfig", config);
}

void from_json(const Json& json, TransformerPipelineParallelConfig& config) {
  read_document(json, "TransformerPipelineParallelConfig", config);
}

void from_json(const Json& json, WorldMeshConfig& config) {
  read_document(json, "WorldMeshConfig", config);
}

}  // namespace tessera::olmo

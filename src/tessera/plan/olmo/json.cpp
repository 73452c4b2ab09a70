#include "tessera/plan/olmo/json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/check.h"

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

void convert(const Json& json, int64_t& value) {
  const bool too_large =
      json.is_number_unsigned() && json.get<uint64_t>() > std::numeric_limits<int64_t>::max();
  TSR_CHECK(json.is_number_integer() && !too_large, json.dump(),
            " is not a whole number of 64 bits");
  value = json.get<int64_t>();
}

void convert(const Json& json, bool& value) {
  TSR_CHECK(json.is_boolean(), json.dump(), " is neither true nor false");
  value = json.get<bool>();
}

void convert(const Json& json, std::vector<int64_t>& values) {
  TSR_CHECK(json.is_array(), json.dump(), " is not a list of whole numbers");
  values.clear();
  for (const Json& element : json) convert(element, values.emplace_back());
}

template <class Enum>
  requires std::is_enum_v<Enum>
void convert(const Json& json, Enum& value) {
  TSR_CHECK(json.is_string(), json.dump(), " is not a text");
  value = from_string<Enum>(json.get<std::string>());
}

template <class Config>
  requires requires(const Json& json, Config& config) { from_json(json, config); }
void convert(const Json& json, Config& config) {
  from_json(json, config);
}

template <class T>
void convert(const Json& json, std::optional<T>& value) {
  convert(json, value.emplace());
}

/// The fields of one configuration, taken one by one.
class Fields {
 public:
  Fields(const Json& json, std::string owner) : json_(json), owner_(std::move(owner)) {
    TSR_CHECK(json.is_object(), owner_, " was given as ", json.dump(),
              "; give an object with its fields");
  }

  template <class T>
  Fields& required(const char* name, T& value) {
    TSR_CHECK(json_.contains(name) && !json_.at(name).is_null(), owner_, ".", name,
              " is missing; give it a value");
    return optional(name, value);
  }

  template <class T>
  Fields& optional(const char* name, T& value) {
    known_.emplace_back(name);
    if (!json_.contains(name) || json_.at(name).is_null()) return *this;
    try {
      convert(json_.at(name), value);
    } catch (const ConfigError& error) {
      throw ConfigError(concat(owner_, ".", name, ": ", error.what()));
    }
    return *this;
  }

  void refuse_others() const {
    for (const auto& [name, unused] : json_.items()) {
      TSR_CHECK(std::ranges::find(known_, name) != known_.end(), owner_, " has no field '", name,
                "'; it has ", join(known_, ", "), did_you_mean(name, known_));
    }
  }

 private:
  const Json& json_;
  std::string owner_;
  std::vector<std::string> known_;
};

template <class Config>
void degree_alone(const Json& json, const char* owner, Config& config) {
  config = {};
  Fields(json, owner).required("degree", config.degree).refuse_others();
}

Fields pipeline_fields(const Json& json, const char* owner, PipelineParallelConfig& config) {
  Fields fields(json, owner);
  fields.required("degree", config.degree)
      .optional("schedule", config.schedule)
      .optional("style", config.style);
  return fields;
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
  config = {};
  Fields(json, "DataParallelConfig")
      .required("name", config.name)
      .optional("param_dtype", config.param_dtype)
      .optional("reduce_dtype", config.reduce_dtype)
      .optional("num_replicas", config.num_replicas)
      .optional("shard_degree", config.shard_degree)
      .refuse_others();
}

void from_json(const Json& json, TensorParallelConfig& config) {
  config = {};
  Fields(json, "TensorParallelConfig")
      .required("degree", config.degree)
      .optional("enable_async", config.enable_async)
      .refuse_others();
}

void from_json(const Json& json, ContextParallelConfig& config) {
  degree_alone(json, "ContextParallelConfig", config);
}

void from_json(const Json& json, ExpertParallelConfig& config) {
  degree_alone(json, "ExpertParallelConfig", config);
}

void from_json(const Json& json, PipelineParallelConfig& config) {
  config = {};
  pipeline_fields(json, "PipelineParallelConfig", config).refuse_others();
}

void from_json(const Json& json, TransformerPipelineParallelConfig& config) {
  config = {};
  pipeline_fields(json, "TransformerPipelineParallelConfig", config)
      .optional("split_points", config.split_points)
      .refuse_others();
}

void from_json(const Json& json, WorldMeshConfig& config) {
  config = {};
  Fields(json, "WorldMeshConfig")
      .optional("dp", config.dp)
      .optional("tp", config.tp)
      .optional("cp", config.cp)
      .optional("pp", config.pp)
      .optional("ep", config.ep)
      .refuse_others();
}

}  // namespace tessera::olmo

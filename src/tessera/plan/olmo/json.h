#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tessera/base/export.h"
#include "tessera/plan/olmo/config.h"

/// The configuration values as JSON with OLMo's field names, by nlohmann's conventions:
///
///   const auto config = json::parse(text).get<olmo::DataParallelConfig>();
///   std::cout << json(config);
///
/// A field that is absent or null has its default, except OLMo's required ones (name, degree).
/// ConfigError for unknown fields and values of the wrong type.
namespace tessera {
namespace olmo TSR_API {

/// Writes every field; an empty optional is null.
void to_json(nlohmann::json& json, const DataParallelConfig& config);
void to_json(nlohmann::json& json, const TensorParallelConfig& config);
void to_json(nlohmann::json& json, const ContextParallelConfig& config);
void to_json(nlohmann::json& json, const TransformerContextParallelConfig& config);
void to_json(nlohmann::json& json, const ExpertParallelConfig& config);
void to_json(nlohmann::json& json, const PipelineParallelConfig& config);
void to_json(nlohmann::json& json, const TransformerPipelineParallelConfig& config);
void to_json(nlohmann::json& json, const WorldMeshConfig& config);
/// Sets every field, absent ones to their defaults; ConfigError if a required one is absent.
void from_json(const nlohmann::json& json, DataParallelConfig& config);
void from_json(const nlohmann::json& json, TensorParallelConfig& config);
void from_json(const nlohmann::json& json, ContextParallelConfig& config);
void from_json(const nlohmann::json& json, TransformerContextParallelConfig& config);
void from_json(const nlohmann::json& json, ExpertParallelConfig& config);
void from_json(const nlohmann::json& json, PipelineParallelConfig& config);
void from_json(const nlohmann::json& json, TransformerPipelineParallelConfig& config);
void from_json(const nlohmann::json& json, WorldMeshConfig& config);

}  // namespace olmo
}  // namespace tessera

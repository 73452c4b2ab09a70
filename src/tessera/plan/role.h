#pragma once

#include <array>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What the groups of a kind do in training, in the same terms for every dialect.
enum class Role {
  kTensor,           // Shard every layer.
  kContext,          // Split every sequence.
  kData,             // Read different data.
  kPipeline,         // Hold consecutive stages.
  kExpert,           // Split the experts.
  kGradients,        // All-reduce whole gradients.
  kShards,           // Hold the shards of one replica.
  kReplicas,         // Hold the same shard of different replicas.
  kExpertGradients,  // All-reduce the gradients of the same experts.
  kExpertTensor,     // Shard each expert.
  kExpertShards,     // Hold the shards of the same experts.
  kExpertReplicas,   // Hold the same shard of the same experts.
};

/// "tp", "cp", "dp", "pp", "ep", "gradients", "shards", "replicas", "expert gradients", "etp",
/// "expert shards", "expert replicas".
const char* to_string(Role role);

/// The role as a sentence: "They shard every layer: …".
const char* explanation(Role role);
/// How often the members communicate: "in every layer", "once per step"; "" if hardly ever.
const char* how_often(Role role);

/// The roles that define a layout. The other roles follow from them, or depend on how parameters
/// are stored.
inline constexpr std::array kLayoutRoles{Role::kData, Role::kTensor, Role::kContext,
                                         Role::kPipeline, Role::kExpert};

}  // namespace tessera

#pragma once

#include <array>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What the groups of a kind do in training: the same words for every dialect.
enum class Role {
  kTensor,           // Share the work on every layer.
  kContext,          // Share a sequence.
  kData,             // Read different data.
  kPipeline,         // Hold consecutive stages.
  kExpert,           // Share the experts.
  kGradients,        // Sum gradients, of which each has all.
  kShards,           // Hold one copy of the model between them.
  kReplicas,         // Hold the same part of different copies.
  kExpertGradients,  // Sum the gradients of the same experts.
  kExpertTensor,     // Share each expert.
};

/// "tp", "cp", "dp", "pp", "ep", "gradients", "shards", "replicas", "expert gradients", "etp".
const char* to_string(Role role);

/// What its groups do, as a sentence: "They share the work on every layer: …".
const char* explanation(Role role);
/// How often their members talk: "in every layer", "once a step"; "" where hardly ever.
const char* rhythm(Role role);

/// The roles that make up a layout: who works with whom. What else there is follows from them, or
/// is a matter of how parameters are kept.
inline constexpr std::array kLayoutRoles{Role::kData, Role::kTensor, Role::kContext,
                                         Role::kPipeline, Role::kExpert};

}  // namespace tessera

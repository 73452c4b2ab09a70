#include "tessera/plan/role.h"

namespace tessera {

const char* to_string(Role role) {
  switch (role) {
    case Role::kTensor:
      return "tp";
    case Role::kContext:
      return "cp";
    case Role::kData:
      return "dp";
    case Role::kPipeline:
      return "pp";
    case Role::kExpert:
      return "ep";
    case Role::kGradients:
      return "gradients";
    case Role::kShards:
      return "shards";
    case Role::kReplicas:
      return "replicas";
    case Role::kExpertGradients:
      return "expert gradients";
    case Role::kExpertTensor:
      return "etp";
  }
  return "unknown";
}

const char* explanation(Role role) {
  switch (role) {
    case Role::kTensor:
      return "They share the work on every layer: each has a slice of every weight matrix.";
    case Role::kContext:
      return "They share every sequence: each has a part of its tokens.";
    case Role::kData:
      return "They read different data.";
    case Role::kPipeline:
      return "They are the stages of a pipeline: each has some of the layers.";
    case Role::kExpert:
      return "They share the experts: tokens travel to the rank that has theirs.";
    case Role::kGradients:
      return "They sum the gradients, so that all take the same step.";
    case Role::kShards:
      return "They hold one copy of the model between them and gather what they need.";
    case Role::kReplicas:
      return "They hold the same part of different copies of the model and sum its gradients.";
    case Role::kExpertGradients:
      return "They have the same experts and sum their gradients.";
    case Role::kExpertTensor:
      return "They share each expert: each has a slice of its weight matrices.";
  }
  return "";
}

const char* rhythm(Role role) {
  switch (role) {
    case Role::kTensor:
    case Role::kContext:
    case Role::kExpert:
    case Role::kExpertTensor:
    case Role::kShards:
      return "in every layer";
    case Role::kPipeline:
      return "in every micro-batch";
    case Role::kGradients:
    case Role::kReplicas:
    case Role::kExpertGradients:
      return "once a step";
    case Role::kData:
      return "";
  }
  return "";
}

}  // namespace tessera

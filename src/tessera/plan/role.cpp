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
    case Role::kExpertShards:
      return "expert shards";
    case Role::kExpertReplicas:
      return "expert replicas";
  }
  return "unknown";
}

const char* explanation(Role role) {
  switch (role) {
    case Role::kTensor:
      return "They shard every layer: each holds a slice of every weight matrix.";
    case Role::kContext:
      return "They split every sequence: each has a part of its tokens.";
    case Role::kData:
      return "They read different data.";
    case Role::kPipeline:
      return "They are the stages of a pipeline: each holds some of the layers.";
    case Role::kExpert:
      return "They split the experts: each token is sent to the ranks of its experts.";
    case Role::kGradients:
      return "They all-reduce the gradients, so that all make the same update.";
    case Role::kShards:
      return "They hold the shards of one replica and all-gather parameters for each layer.";
    case Role::kReplicas:
      return "They hold the same shard of different replicas and all-reduce its gradients.";
    case Role::kExpertGradients:
      return "They hold the same experts and all-reduce their gradients.";
    case Role::kExpertTensor:
      return "They shard each expert: each holds a slice of its weight matrices.";
    case Role::kExpertShards:
      return "They hold the shards of the same experts and all-gather their parameters.";
    case Role::kExpertReplicas:
      return "They hold the same shard of the same experts and all-reduce its gradients.";
  }
  return "";
}

const char* how_often(Role role) {
  switch (role) {
    case Role::kTensor:
    case Role::kContext:
    case Role::kExpert:
    case Role::kExpertTensor:
    case Role::kShards:
    case Role::kExpertShards:
      return "in every layer";
    case Role::kPipeline:
      return "in every micro-batch";
    case Role::kGradients:
    case Role::kReplicas:
    case Role::kExpertGradients:
    case Role::kExpertReplicas:
      return "once per step";
    case Role::kData:
      return "";
  }
  return "";
}

}  // namespace tessera

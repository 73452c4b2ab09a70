#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/plan/megatron/plan.h"
#include "tessera/train/training_setup.h"

namespace tessera {
namespace megatron TSR_API {

/// Training with Megatron-Core's distributed optimizer (ZeRO-1): each of the
/// num_distributed_optimizer_instances shards the state over its data-parallel ranks.
/// docs/dialects/megatron.md lists what each field does. ConfigError for all that megatron_plan
/// refuses, and for an order whose pipelines are not those of train_plan().
TrainingSetup training_setup(int64_t world, const MegatronConfig& config);

}  // namespace megatron
}  // namespace tessera

#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/plan/nemo/plan.h"
#include "tessera/train/training_setup.h"

namespace tessera {
namespace nemo TSR_API {

/// Training as a strategy configuration describes it: FSDP2Config, MegatronFSDPConfig or DDPConfig.
/// docs/dialects/nemo.md lists what each field does. ConfigError for all that nemo_plan refuses,
/// and for values without an equivalent.
TrainingSetup training_setup(int64_t world, const DistributedConfig& config,
                             const ParallelismSizes& sizes = {});

}  // namespace nemo
}  // namespace tessera

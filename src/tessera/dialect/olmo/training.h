#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/plan/olmo/config.h"
#include "tessera/train/training_setup.h"

namespace tessera {
namespace olmo TSR_API {

/// Training as a DataParallelConfig describes it: `config.dp` is required, `config.pp` may be set.
/// docs/dialects/olmo.md lists what each field does. ConfigError for all that olmo_plan refuses,
/// and for values without an equivalent. Only HSDP without degrees uses `num_nodes`.
TrainingSetup training_setup(int64_t world, const WorldMeshConfig& config, int64_t num_nodes = 1);
/// The same with the attention of a Transformer over its context-parallel ranks. ConfigError unless
/// `config.cp` has the same degree, and for all that context_parallel_options() refuses.
TrainingSetup training_setup(int64_t world, const WorldMeshConfig& config,
                             const TransformerContextParallelConfig& cp, int64_t num_nodes = 1);

}  // namespace olmo
}  // namespace tessera

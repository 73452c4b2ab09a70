#pragma once

#include "tessera/comm/world.h"
#include "tessera/schedule/schedule.h"
#include "tessera/train/job.h"

namespace tessera {

/// The shape that the model has or will have.
LlamaConfig shape_of(const ModelSection& model);

/// The table by which each replica runs: of the pipeline, or the slices of a batch on one rank.
Schedule schedule_of(const TrainConfig& config);

/// In this process alone.
TrainModel make_single_model(const TrainConfig& config);
/// **Collective.** On the world's ranks.
TrainModel make_parallel_model(const TrainConfig& config, const WorldHandle& world);

}  // namespace tessera

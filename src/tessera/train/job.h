#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/world.h"
#include "tessera/config/train_config.h"
#include "tessera/optim/grad_scaler.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/spikes.h"
#include "tessera/optim/weight_average.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/run_saver.h"
#include "tessera/train/train_model.h"
#include "tessera/train/trainer.h"

namespace tessera TSR_API {

/// The parts of a run, made from its configuration.
struct TrainJob {
  World world;                             // First member: it outlives the others.
  TokenBatches batches;                    // Of the training data.
  std::optional<TokenBatches> validation;  // The held-out data, if the run validates.
  TrainModel model;                        // With its values.
  std::unique_ptr<Optimizer> optimizer;    // Of this rank's parameters; never null.
  TrainerOptions options;                // Without scaler, spikes and average, which train() sets.
  std::optional<GradScaler> scaler;      // With float16 parameters.
  SpikeDetector spikes;                  // Finds none if optim.spike is 0.
  std::optional<WeightAverage> average;  // With optim.ema_decay.
  int64_t validate_batches = 0;          // At most; fewer if less data is held out.
  TrainConfig config;                    // Its run directory is rank 0's on all ranks.
  TrainConfig wanted;  // For checkpoints: that of all nodes, even if some are lost.
};

/// **Collective.** Connects to the other ranks, opens the data, checks every token, and makes or
/// loads the model. One process must have called encode_texts() before. A run that resumes
/// continues with the state of its newest checkpoint. `wanted` is the configuration with all nodes,
/// if some are lost. ConfigError or DataError if something does not fit. Writes nothing.
TrainJob make_job(TrainConfig config, std::optional<TrainConfig> wanted = std::nullopt);

/// The checks of make_job() that need neither data nor other ranks, in one process.
void check_job(const TrainConfig& config);

/// The averaged weights for a checkpoint, under state_name(NAME, "ema").
CheckpointEntries average_entries(const WeightAverage& average);

/// **Collective.** Trains until the end, or until the hooks of a rank stop it. Returns the number
/// of steps done. Uses the job's validation, not that of `hooks`. Saves checkpoints as the
/// configuration says, and calls `after_save` after each. Compares replicas before it saves.
int64_t train(TrainJob& job, TrainerHooks hooks, RunSaver::AfterSave after_save = {});

}  // namespace tessera

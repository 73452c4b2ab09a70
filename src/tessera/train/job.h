#pragma once

#include <memory>
#include <optional>

#include "tessera/model/llama.h"
#include "tessera/optim/optimizer.h"
#include "tessera/train/batches.h"
#include "tessera/train/engine.h"
#include "tessera/train/train_config.h"
#include "tessera/train/trainer.h"

namespace tessera {

/// The parts of a run as its configuration has them: here the strategies are composed.
struct TrainJob {
  std::shared_ptr<Llama> model;
  Batches batches;
  std::optional<Batches> validation;  // What was held out, where the run validates.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Optimizer> optimizer;
  TrainerOptions options;
  int64_t validate_batches = 0;
};

/// Opens the data, checks every token, and makes or loads the model. ConfigError and DataError for
/// whatever does not fit; nothing is written.
TrainJob make_job(const TrainConfig& config);

/// Trains to the end, or until the hooks ask for a stop; gives the number of steps done. The
/// validation is the job's own.
int64_t train(TrainJob& job, TrainerHooks hooks);

}  // namespace tessera

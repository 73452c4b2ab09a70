#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/world.h"
#include "tessera/config/train_config.h"
#include "tessera/optim/optimizer.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/train_model.h"
#include "tessera/train/trainer.h"

namespace tessera TSR_API {

/// The parts of a run as its configuration has them.
struct TrainJob {
  World world;  // It outlives what follows.
  TokenBatches batches;
  std::optional<TokenBatches> validation;  // What was held out, if the run validates.
  TrainModel model;
  std::unique_ptr<Optimizer> optimizer;
  TrainerOptions options;
  int64_t validate_batches = 0;
  std::string run_dir;  // Of all ranks: what the first one's configuration says.
};

/// **Collective.** Meets the other ranks, opens the data, checks every token, and makes or loads
/// the model. ConfigError and DataError for whatever does not fit; nothing is written.
TrainJob make_job(TrainConfig config);

/// What make_job() would refuse before it reads data or meets anyone, said by one process.
void check_job(const TrainConfig& config);

/// **Collective.** Trains to the end, or until a rank's hooks ask for a stop; gives the number of
/// steps done. The validation is the job's own.
int64_t train(TrainJob& job, TrainerHooks hooks);

}  // namespace tessera

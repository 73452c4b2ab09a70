#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/world.h"
#include "tessera/config/train_config.h"
#include "tessera/format/llama_config.h"
#include "tessera/schedule/schedule.h"
#include "tessera/train/engine.h"

namespace tessera TSR_API {

/// A model on its ranks, and what is done with it besides training.
struct TrainModel {
  std::unique_ptr<Engine> engine;
  int64_t parameter_count = 0;  // Of the whole.
  /// **Collective.** Writes the weights as a Hugging Face folder.
  std::function<void(const std::string& folder)> save;
};

/// The shape that the model has or will have.
LlamaConfig shape_of(const ModelSection& model);

/// The table by which each replica runs: of the pipeline, or the slices of a batch on one rank.
Schedule schedule_of(const TrainConfig& config);

/// In this process alone.
TrainModel make_single_model(const TrainConfig& config);
/// **Collective.** On the world's ranks.
TrainModel make_parallel_model(const TrainConfig& config, const WorldHandle& world);

}  // namespace tessera

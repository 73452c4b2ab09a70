#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/world.h"
#include "tessera/config/train_config.h"
#include "tessera/format/llama_config.h"
#include "tessera/layer/unit.h"
#include "tessera/schedule/schedule.h"
#include "tessera/train/engine.h"

namespace tessera TSR_API {

/// A model on its ranks, as a configuration has it.
struct TrainModel {
  Engine engine;
  LlamaConfig shape;
  at::ScalarType dtype;

  /// Of the whole.
  int64_t parameter_count() const;
  /// **Collective.** Writes the weights as a Hugging Face folder.
  void save(const std::string& folder) const;
};

/// The shape that the model has or will have.
LlamaConfig shape_of(const ModelSection& model);

/// The table by which each replica runs: of the pipeline, or the slices of a batch on one rank.
Schedule schedule_of(const TrainConfig& config);

/// **Collective.** The model on the world's ranks, with its values.
TrainModel make_model(const TrainConfig& config, const WorldHandle& world);

}  // namespace tessera

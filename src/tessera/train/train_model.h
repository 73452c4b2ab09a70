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

class Checkpoint;

/// A distributed model, made from a configuration.
struct TrainModel {
  Engine engine;         // With this rank's part of the model.
  LlamaConfig shape;     // Of the whole model.
  at::ScalarType dtype;  // Of the parameters.

  /// Number of parameters of the whole model.
  int64_t parameter_count() const;
  /// **Collective.** Writes the weights as a Hugging Face folder.
  void save(const std::string& folder) const;
};

/// The shape of the model, from its files or from the configuration.
LlamaConfig shape_of(const ModelSection& model);

/// ConfigError if this process cannot use the device of that name, "cpu" or "cuda".
void check_device(const std::string& name);
/// The same for the device of a run, and if its GPU lacks what the run wants.
void check_device(const TrainSection& train);

/// The schedule of each replica: of the pipeline, or of the slices of a batch on one rank.
Schedule schedule_of(const TrainConfig& config);

/// Which targets of a batch have a loss.
enum class Targets {
  kAllCount,     // With packed documents, all but their ends.
  kSomeIgnored,  // Some are kIgnoredTarget.
};

/// **Collective.** Distributes the model over the world's ranks and sets its values: those of
/// `checkpoint`, unless it is null.
TrainModel make_model(const TrainConfig& config, const WorldHandle& world,
                      const Checkpoint* checkpoint = nullptr, Targets targets = Targets::kAllCount);

}  // namespace tessera

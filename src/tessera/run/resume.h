#pragma once

#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/config/layers.h"
#include "tessera/config/train_config.h"

namespace tessera TSR_API {

/// The settings of a run that may be a resumed one: if they ask to resume and the run directory
/// holds a checkpoint, its configuration comes before them, so that only changes need be given. If
/// they have a parallel key, none of the stored layout is used.
ConfigLayers with_stored_config(ConfigLayers layers);

/// The configuration in the newest checkpoint of a run directory; nothing if there is none.
std::optional<TrainConfig> stored_config(const std::string& run_dir);

/// The configuration of the run that a model is from: a run directory or a checkpoint. Nothing for
/// a Hugging Face folder.
std::optional<TrainConfig> find_run_config(const std::string& model);

/// ConfigError naming the keys if the curve of a run would change: model, data, seeds, optimizer,
/// learning rate. Its layout, dtype and number of steps may change.
void check_same_curve(const TrainConfig& before, const TrainConfig& now);

/// The settings of a run whose earlier attempt failed, for the next attempt of the same job: it
/// resumes from the newest checkpoint, or starts again if there is none. ConfigError without a run
/// directory.
TrainConfig restarted(TrainConfig config);

}  // namespace tessera

#pragma once

#include "tessera/config/train_config.h"

namespace tessera::cli {

/// Encodes the texts of a run that have not been encoded yet, and says so on stderr.
void encode_texts_of(const TrainConfig& config);

}  // namespace tessera::cli

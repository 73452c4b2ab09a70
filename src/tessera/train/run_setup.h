#pragma once

#include "tessera/base/export.h"
#include "tessera/comm/world.h"
#include "tessera/config/train_config.h"
#include "tessera/data/token_data.h"

/// What training and evaluating a model begin with.
namespace tessera TSR_API {

/// Sets the threads of this process. By default, the ranks of a host share its cores.
void set_threads(const TrainConfig& config);

/// **Collective.** Connects to the other ranks.
World connect_ranks(const TrainConfig& config);

/// The tokens of the run's data; DataError if one is outside the vocabulary.
TokenData open_data(const TrainConfig& config);

}  // namespace tessera

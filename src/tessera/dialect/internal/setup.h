#pragma once

#include <cstdint>
#include <string>

#include "tessera/topology/layout.h"
#include "tessera/train/training_setup.h"

/// What the dialects share when they turn a configuration into a TrainingSetup.
namespace tessera::dialect::detail {

/// The size of an axis; 1 if the layout does not have it.
int64_t size_of(const Layout& layout, const std::string& axis);

/// The setup of this kind of data parallelism and these degrees, of which dp_replicate and dp_shard
/// are set from `data`. ConfigError for values that do not fit together.
TrainingSetup setup_of(ParallelDims dims, const DataParallelOptions& data);

/// ConfigError if the field is set; `reason` says why and what to do instead.
void check_unset(bool is_set, const std::string& field, const std::string& reason);

}  // namespace tessera::dialect::detail

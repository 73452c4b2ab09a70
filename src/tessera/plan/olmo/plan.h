#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/plan/olmo/config.h"
#include "tessera/plan/plan.h"

namespace tessera TSR_API {

/// Every group that OLMo-core's build_world_mesh and its accessors create in a world of this many
/// ranks.
///
/// The layout is "world": pp, then dp (or dp_replicate and dp_shard), then cp, then tp, which
/// varies fastest; a dimension exists if its configuration is given. The specs are its dimensions
/// in this order, then the flattened ones: dp if HSDP splits it in two, and dp_cp, over which a
/// model is wrapped with context parallelism. ConfigError for all that OLMo refuses, early or late.
/// Only HSDP without degrees uses `num_nodes`.
Plan olmo_plan(int64_t world, const olmo::WorldMeshConfig& config, int64_t num_nodes = 1);

}  // namespace tessera

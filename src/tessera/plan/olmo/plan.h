#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/plan/olmo/config.h"
#include "tessera/plan/plan.h"

namespace tessera TSR_API {

/// Every group that OLMo-core's build_world_mesh and its accessors would give in a world of this
/// many ranks.
///
/// The layout is "world": pp, then dp (or dp_replicate and dp_shard), then cp, then tp, which
/// varies fastest; a dimension is there whenever its configuration is. The specs are its dimensions
/// in this order, then the flattened ones: dp, where HSDP has cut it in two, and dp_cp, over which
/// a model is wrapped where there is context parallelism. What OLMo refuses, early or late, raises
/// ConfigError. `num_nodes` is asked for by HSDP alone, where it sets neither of its degrees.
Plan olmo_plan(int64_t world, const olmo::WorldMeshConfig& config, int64_t num_nodes = 1);

}  // namespace tessera

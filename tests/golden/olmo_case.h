#pragma once

#include "tessera/plan/olmo/config.h"
#include "tests/golden/golden.h"

/// Cases of olmo_mesh: their arguments, and the rules that hold for them.
namespace tessera::golden {

olmo::WorldMeshConfig olmo_config_of(const Json& test_case);

/// The number of nodes that the case's variables tell; 0 where they tell none.
int64_t olmo_num_nodes(const Json& test_case);

/// The rule by which a world mesh that the peer builds is refused; null where there is none.
const Rule* olmo_refusal_rule(const Json& test_case);

}  // namespace tessera::golden

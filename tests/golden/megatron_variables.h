#pragma once

#include "tests/golden/golden.h"

namespace tessera::golden {

/// Megatron's module variables that hold something, each through the getter that reads it:
/// {"hold": […], "overrides": […]}. An override's getter may answer from a group, so the second
/// list says which overrides may be set.
Json held_variables();

/// The peer's list of variables in the same form, where ours is `held`: an override that ours may
/// hold is taken for held.
Json expected_variables(const Json& peers, const Json& held);

}  // namespace tessera::golden

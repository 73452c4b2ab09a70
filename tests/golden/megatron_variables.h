#pragma once

#include "tests/golden/golden.h"

namespace tessera::golden {

/// Megatron's module variables that hold something, each through the getter that reads it:
/// {"hold": […], "overrides": […]}. An override's getter may answer from a group, so the second
/// list says which may hold something. `made_groups` is whether a group was made by hand since the
/// last destroy: the list of groups has no getter where this rank is in none.
Json held_variables(bool made_groups);

/// The peer's list of variables in the same form, where ours is `held`: an override that ours may
/// hold is taken for held.
Json expected_variables(const Json& peers, const Json& held);

}  // namespace tessera::golden

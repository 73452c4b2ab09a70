#pragma once

#include <functional>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

/// What can be made of, and done in, a group that exists.
namespace tessera TSR_API {

/// The same ranks on another lane. Local: its communicator is made when it is first used.
Group on_lane(const Group& group, Lane lane);

/// **Collective.** Runs `check` on every rank of the group. Where it throws on one of them, all
/// throw: that one its own error, the others ConfigError with `what`.
void check_together(const Group& group, std::string_view what, const std::function<void()>& check);

}  // namespace tessera

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

/// What can be made of, and done in, a group that exists.
namespace tessera TSR_API {

/// The same ranks on another lane. Local: its communicator is made when it is first used.
Group on_lane(const Group& group, Lane lane);

/// **Collective.** Runs `check` on every rank of the group. Where it throws on one of them, all
/// throw: that one its own error, the others ConfigError with `what`.
void check_together(const Group& group, std::string_view what, const std::function<void()>& check);

/// **Collective.** Every rank says what is wrong on it, "" if nothing is. If any rank says
/// something, all throw the same ConfigError, with `what` and what the first of them say.
void throw_together(const Group& group, std::string_view what, const std::string& complaint);

/// **Collective.** Compares a list of lines with group rank 0's. If any rank has others, all throw
/// the same ConfigError, with `what`, the first line that differs, and who has which:
///
///   check_same(group, "the arguments of initialize differ on the ranks", {"tp_size 2", "pp_size
///   1"});
void check_same(const Group& group, std::string_view what, const std::vector<std::string>& lines);

}  // namespace tessera

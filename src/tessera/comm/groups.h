#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

/// Helpers on existing groups.
namespace tessera TSR_API {

/// The same ranks on another lane. Local: the first use creates the communicator.
Group on_lane(const Group& group, Lane lane);

/// The group's ranks in groups of `size` consecutive ones: the group that has this rank. Local.
/// ConfigError unless `size` divides that of the group.
Group neighbours(const Group& group, int64_t size);

/// Asks `is_done` again and again until it returns true, at first without a pause. CommError that
/// names `what` and the rank if a rank of the group's world is lost meanwhile, or if the group's
/// timeout expires; groups of NCCL are then unusable. In a world of one rank nothing ends the wait.
void wait_until(const Group& group, std::string_view what, const std::function<bool()>& is_done);

/// **Collective.** Runs `check` on every rank of the group. If it throws on one rank, all throw:
/// that rank its own error, the others ConfigError with `what`.
void check_together(const Group& group, std::string_view what, const std::function<void()>& check);

/// **Collective.** `complaint` says what is wrong on this rank, "" if nothing is. If any rank has a
/// complaint, all throw the same ConfigError with `what` and the first complaints.
void throw_together(const Group& group, std::string_view what, const std::string& complaint);

/// **Collective.** Compares the lines with those of group rank 0. If they differ on any rank, all
/// throw the same ConfigError with `what`, the rank, and the first line that differs:
///
///   check_same(group, "the arguments of initialize differ on the ranks", {"tp_size 2", "pp_size
///   1"});
void check_same(const Group& group, std::string_view what, const std::vector<std::string>& lines);

}  // namespace tessera

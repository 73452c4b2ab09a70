#include "tessera/comm/groups.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/state.h"
#include "tessera/comm/objects.h"
#include "tessera/comm/recorded_operations.h"
#include "tessera/comm/sent_bytes.h"

namespace tessera {

using namespace comm::detail;

namespace {

bool is_alone(const Group& group) {
  return group.size() == 1 || group.backend() == Backend::kFake;
}

// Other ranks or another lane, with the name, back end, timeout and NCCL options of a group.
Group group_like(const Group& group, const RankGroup& ranks, Lane lane) {
  const GroupState& state = group.state();
  state.world().check_open();
  if (ranks == state.ranks() && lane == state.lane()) return group;
  // Keeps the world alive by keeping a group of it.
  const std::shared_ptr<WorldState> world(std::make_shared<Group>(group), &state.world());
  const GroupOptions options{.name = state.name(),
                             .lane = lane,
                             .backend = state.backend(),
                             .timeout = state.timeout(),
                             .nccl = state.nccl()};
  return Group(std::make_shared<GroupState>(world, ranks, options));
}

std::string first_difference(const std::vector<std::string>& mine,
                             const std::vector<std::string>& wanted) {
  for (size_t i = 0; i < std::max(mine.size(), wanted.size()); ++i) {
    const std::string here = i < mine.size() ? mine[i] : "nothing";
    const std::string there = i < wanted.size() ? wanted[i] : "nothing";
    if (here != there) return concat("has ", here, ", but rank 0 of the group has ", there);
  }
  return "";
}

}  // namespace

SentBytes sent_bytes(const Group& group) {
  const auto& recorder = group.state().world().recorder;
  return recorder ? recorder->sent_bytes() : SentBytes();
}

FlightDump recorded_operations(const Group& group) {
  const auto& recorder = group.state().world().recorder;
  return recorder ? recorder->dump("asked for") : FlightDump();
}

Group on_lane(const Group& group, Lane lane) {
  return group_like(group, group.ranks(), lane);
}

Group neighbours(const Group& group, int64_t size) {
  TSR_CHECK(size >= 1 && group.size() % size == 0, "cannot split group '", group.name(), "' of ",
            group.size(), " ranks into groups of ", size, "; choose a divisor of ", group.size());
  const auto begin = group.ranks().begin() + group.rank().value / size * size;
  return group_like(group, RankGroup(begin, begin + size), group.lane());
}

void wait_until(const Group& group, std::string_view what, const std::function<bool()>& is_done) {
  using std::chrono::milliseconds;
  constexpr std::chrono::microseconds kPause{200};
  const WorldState& world = group.state().world();
  bool takes_long = false;
  const auto is_done_within = [&](milliseconds limit) {
    return becomes_true(is_done, limit, std::exchange(takes_long, true) ? kPause : kNoPause);
  };
  if (world.launch.world_size == 1) {  // There is no rank to wait for, and so no timeout.
    while (!is_done_within(milliseconds(500))) continue;
    return;
  }
  const auto wait = [&](const Waiting& waiting) { wait_in_steps(waiting, is_done_within); };
  watch_all(world, std::string(what), group.timeout(), wait);
}

void check_together(const Group& group, std::string_view what, const std::function<void()>& check) {
  if (is_alone(group)) return check();
  std::exception_ptr error;
  try {
    check();
  } catch (...) {
    error = std::current_exception();
  }
  try {
    agree(error == nullptr, group, what);
  } catch (const ConfigError&) {
    if (!error) throw;
  }
  if (error) std::rethrow_exception(error);
}

void throw_together(const Group& group, std::string_view what, const std::string& complaint) {
  constexpr size_t kMostTold = 3;
  const std::vector<std::string> complaints =
      is_alone(group) ? std::vector{complaint} : all_gather_object(complaint, group);
  std::vector<std::string> told;
  size_t count = 0;
  for (size_t i = 0; i < complaints.size(); ++i) {
    if (complaints[i].empty()) continue;
    if (++count <= kMostTold) told.push_back(concat("rank ", group.ranks()[i], " ", complaints[i]));
  }
  if (count > kMostTold) told.push_back(concat("and ", count - kMostTold, " more ranks"));
  const bool all_alike = count == complaints.size() && complaints.size() > 1 &&
                         std::ranges::count(complaints, complaints[0]) == std::ssize(complaints);
  if (all_alike) told = {concat("all ranks: ", complaints[0])};
  TSR_CHECK(count == 0, what, " of group ", group.name(), ": ", join(told, "; "));
}

void check_same(const Group& group, std::string_view what, const std::vector<std::string>& lines) {
  if (is_alone(group)) return;
  throw_together(group, what,
                 first_difference(lines, broadcast_object(lines, GroupRank{0}, group)));
}

}  // namespace tessera

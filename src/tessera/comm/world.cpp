#include "tessera/comm/world.h"

#include <ATen/Context.h>

#include <thread>

#include "tessera/base/check.h"
#include "tessera/comm/internal/rendezvous.h"
#include "tessera/comm/internal/state.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kLeaveTimeout{30};  // How long rank 0 waits for the others to leave.
constexpr std::chrono::milliseconds kPoll{5};

// Rank 0 holds the store, so it must be the last to leave.
void leave_together(WorldState& world) {
  if (!world.store) return;
  const int64_t left = world.store->add("left", 1);
  if (world.launch.rank != 0 || left == world.launch.world_size) return;
  const auto deadline = std::chrono::steady_clock::now() + kLeaveTimeout;
  while (world.store->add("left", 0) < world.launch.world_size &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
  }
}

std::optional<World>& current_slot() {
  static std::optional<World> slot;
  return slot;
}

Backend default_backend() {
  return at::hasCUDA() ? Backend::kNccl : Backend::kGloo;
}

}  // namespace

World::World(std::shared_ptr<WorldState> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;

World& World::operator=(World&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

// No collective here: a process that unwinds must not wait for others.
World::~World() {
  if (state_) state_->close();
}

World World::connect(const WorldOptions& options) {
  return connect(read_launch_info(process_environment()), options);
}

World World::connect(const LaunchInfo& launch, const WorldOptions& options) {
  TSR_CHECK(options.timeout.count() > 0, "a timeout of ", options.timeout.count(),
            " ms is not positive; choose at least 1 ms");
  auto state = std::make_shared<WorldState>();
  state->launch = launch;
  state->backend = options.backend == Backend::kAuto ? default_backend() : options.backend;
  state->timeout = options.timeout;
  if (launch.world_size > 1 && options.backend != Backend::kFake) {
    state->address = local_address(launch, process_environment());
    state->store = meet(launch, options.timeout);
  }
  return World(std::move(state));
}

World World::fake(GlobalRank rank, int64_t size) {
  TSR_CHECK(size > 0 && 0 <= rank.value && rank.value < size, "rank ", rank, " of a world of ",
            size, " cannot be acted; choose a rank from 0 to the size less 1");
  return connect({.launcher = "fake",
                  .rank = rank.value,
                  .world_size = size,
                  .local_rank = rank.value,
                  .local_world_size = size},
                 {.backend = Backend::kFake});
}

GlobalRank World::rank() const {
  return {state_->launch.rank};
}
int64_t World::size() const {
  return state_->launch.world_size;
}
const LaunchInfo& World::launch() const {
  return state_->launch;
}
Backend World::backend() const {
  return state_->backend;
}

Group World::group() const {
  RankGroup all;
  for (int64_t rank = 0; rank < size(); ++rank) all.push_back({rank});
  return group(all, {.name = "world"});
}

Group World::group(const RankGroup& ranks, const GroupOptions& options) const {
  state_->check_open();
  return Group(std::make_shared<GroupState>(state_, ranks, options));
}

std::vector<Group> World::make_groups(std::span<const GroupRequest> requests) const {
  std::vector<Group> groups;
  for (const auto& [ranks, options] : requests) groups.push_back(group(ranks, options));
  for (const Group& group : groups) {
    if (group.is_member() && group.size() > 1)
      group.state().connect(GroupState::StoreClient::kShared);
  }
  return groups;
}

World* World::current() {
  auto& slot = current_slot();
  return slot ? &*slot : nullptr;
}

World& World::make_current(World world) {
  auto& slot = current_slot();
  if (slot) throw StateError("this process has a current world already; clear it first");
  return slot.emplace(std::move(world));
}

void World::clear_current() {
  current_slot().reset();
}

void World::close() {
  if (!state_) return;
  leave_together(*state_);
  state_->close();
  state_.reset();
}

}  // namespace tessera

#include "tessera/comm/world.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/comm/internal/rendezvous.h"
#include "tessera/comm/internal/state.h"
#include "tessera/launch/heartbeat_pipe.h"
#include "tessera/launch/worker.h"

namespace tessera {

using namespace comm::detail;

namespace {

constexpr std::chrono::seconds kLeaveTimeout{5};  // Rank 0 waits so long for the others.
constexpr std::chrono::milliseconds kShortPause{1};
constexpr std::chrono::milliseconds kPause{20};

// Returns when all ranks have reached `place`.
void wait_for_all(const WorldState& world, const std::string& place,
                  std::chrono::milliseconds timeout) {
  world.recorder->set_place(place);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto arrive = [store = world.store, place, deadline, size = world.launch.world_size] {
    const std::string all_here = place + "/all";
    if (store->add(place, 1) == size) store->set(all_here, "yes");
    // store->wait() would block the client for other threads, and forever if this thread is
    // abandoned.
    for (auto pause = kShortPause; !store->check({all_here}); pause = std::min(2 * pause, kPause)) {
      if (std::chrono::steady_clock::now() > deadline)
        throw CommError("not all ranks have arrived");
      std::this_thread::sleep_for(pause);
    }
  };
  watch_all(world, place, timeout, [&](const Waiting& waiting) { run_watched(waiting, arrive); });
  world.recorder->set_place("");
}

// Operations of NCCL need all ranks, so a lost one is named.
void finish_nccl(WorldState& world) {
  if (!world.can_finish_nccl()) return;
  const auto end = [device = world.device] {
    const c10::impl::VirtualGuardImpl gpus(device.type());
    gpus.setDevice(device);  // Of this thread, which would begin to use GPU 0 otherwise.
    gpus.synchronizeDevice(device.index());
  };
  watch_all(world, "the last operations of the GPU", world.timeout,
            [&](const Waiting& waiting) { run_watched(waiting, end); });
  world.nccl_has_ended = true;
}

// Rank 0 hosts the store, so it must leave last.
void leave_together(const WorldState& world) {
  wait_for_all(world, kClosing, world.timeout);
  world.watchdog->stop("");
  const int64_t gone = world.store->add("gone", 1);
  if (world.launch.rank != 0 || gone == world.launch.world_size) return;
  const auto deadline = std::chrono::steady_clock::now() + kLeaveTimeout;
  while (world.store->add("gone", 0) < world.launch.world_size &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kShortPause);
  }
}

/// A variable that switches something on or off.
struct Switch {
  const char* name;
  bool by_default;
  const char* meaning;
};
constexpr Switch kChecks{"TESSERA_CHECK_COLLECTIVES", false, "1 compares the calls of all ranks"};
constexpr Switch kSharedMemory{
    "TESSERA_SHM", true, "0 sends over Gloo instead of memory that the ranks of a host share"};
constexpr Switch kSplitsNccl{"TESSERA_NCCL_SPLIT", false,
                             "1 splits the NCCL communicators of a plan from that of all ranks"};

bool is_on(const Switch& variable, const Environment& environment) {
  const std::string value = environment(variable.name).value_or("");
  TSR_CHECK(value == "0" || value == "1" || value.empty(), variable.name, "='", value,
            "' must be 0 or 1; ", variable.meaning);
  return value.empty() ? variable.by_default : value == "1";
}

// For the launcher, which names the place of a rank that hangs.
std::function<std::string()> place_of(const std::weak_ptr<Recorder>& weak) {
  return [weak] {
    const std::shared_ptr<Recorder> recorder = weak.lock();
    if (!recorder) return std::string();
    const LatestOperation here = recorder->latest_operation();
    if (here.operation.empty()) return std::string();
    return concat(here.inside ? "in " : "after ", here.operation);
  };
}

std::optional<World>& current_slot() {
  static std::optional<World> slot;
  return slot;
}

int64_t count_gpus() {
  return at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
}

// Makes this GPU the current device of the calling thread. Allocates nothing on it.
c10::Device choose_device(const LaunchInfo& launch) {
  const int64_t gpus = count_gpus();
  if (gpus == 0) return c10::kCPU;
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(launch.local_rank % gpus));
  c10::impl::VirtualGuardImpl(c10::kCUDA).uncheckedSetDevice(device);
  return device;
}

// The back end for kAuto. Each rank publishes whether it has a GPU, so all get the same result.
Backend agreed_backend(const WorldState& world) {
  const bool own_gpu = count_gpus() >= world.launch.local_world_size;
  if (!world.store) return own_gpu ? Backend::kNccl : Backend::kGloo;
  const std::string key = "ranks with a gpu";
  (void)world.store->add(key, own_gpu ? 1 : 0);
  wait_for_all(world, "backend of the world", world.timeout);
  return world.store->add(key, 0) == world.launch.world_size ? Backend::kNccl : Backend::kGloo;
}

}  // namespace

WorldHandle::WorldHandle(std::shared_ptr<WorldState> state) : state_(std::move(state)) {}

WorldState& WorldHandle::state() const {
  if (!state_) throw StateError("this world was moved from; use the one it was moved to");
  return *state_;
}

GlobalRank WorldHandle::rank() const {
  return GlobalRank{state().launch.rank};
}
int64_t WorldHandle::size() const {
  return state().launch.world_size;
}
const LaunchInfo& WorldHandle::launch() const& {
  return state().launch;
}
LaunchInfo WorldHandle::launch() && {
  return state().launch;
}
Backend WorldHandle::backend() const {
  return state().backend;
}
bool WorldHandle::splits_nccl() const {
  return state().splits_nccl;
}
c10::Device WorldHandle::device() const {
  return state().device;
}

void WorldHandle::set_timeout(std::chrono::milliseconds timeout) {
  group().set_timeout(timeout);
  state().timeout = timeout;
}

Group WorldHandle::group() const {
  return group(all_ranks_of(state().launch), {.name = "world"});
}

Group WorldHandle::group(const RankGroup& ranks, const GroupOptions& options) const {
  state().check_open();
  return Group(std::make_shared<GroupState>(state_, ranks, options));
}

std::vector<Group> WorldHandle::make_groups(std::span<const GroupRequest> requests) const {
  state().check_open();
  std::vector<Group> groups;
  for (const auto& [ranks, options] : requests) groups.push_back(group(ranks, options));
  const auto connects = [](const Group& group) { return group.state().communicator() != nullptr; };
  // Refuse back ends that this build does not have before any group is made.
  for (const Group& group : groups) {
    if (connects(group)) (void)state_->engine(group.backend());
  }
  for (const Group& group : groups) {
    if (!connects(group)) continue;
    (void)group.state().connect(GroupState::StoreClient::kShared);
    const auto& twin = group.state().cpu_twin();
    if (twin) (void)twin->connect(GroupState::StoreClient::kShared);
  }
  return groups;
}

World::World(World&&) noexcept = default;

World& World::operator=(World&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

// No collective here: an unwinding process must not wait for others.
World::~World() {
  if (!state_ || !state_->is_open()) return;
  if (state_->watchdog) state_->watchdog->stop("ended without closing its world");
  state_->close();
}

World World::connect(const WorldOptions& options) {
  return connect(read_launch_info(process_environment()), options);
}

World World::connect(const LaunchInfo& launch, const WorldOptions& options) {
  TSR_CHECK(options.timeout.count() > 0, "the timeout must be ≥ 1 ms, but is ",
            options.timeout.count(), " ms");
  const Environment environment = process_environment();
  const bool checked = is_on(kChecks, environment);
  const bool shares_memory = is_on(kSharedMemory, environment);
  const bool splits_nccl = is_on(kSplitsNccl, environment);
  const auto silence = silence_setting(environment).value_or(options.silence);
  report_uncaught();
  if (options.backend != Backend::kFake) {
    // What a rank prints must not be lost in a buffer if the job fails.
    if (launch.world_size > 1 && isatty(STDOUT_FILENO) == 0) setvbuf(stdout, nullptr, _IOLBF, 0);
    send_heartbeats([] { return std::string("connecting to the others"); });
  }
  const auto timeouts = WatchdogTimeouts::of(launch.world_size, silence, has_watching_launcher());
  auto state = std::make_shared<WorldState>();
  state->launch = launch;
  state->backend = options.backend;
  state->timeout = options.timeout;
  state->splits_nccl = splits_nccl;
  World world(state);
  if (launch.world_size > 1 && options.backend != Backend::kFake) {
    const auto start_timeout = std::min(options.timeout, options.start_timeout);
    state->address = local_address(launch, environment);
    state->address.shares_memory = shares_memory;
    const auto [store, watchdog_store, job] = rendezvous(launch, start_timeout);
    state->store = store;
    state->checked = checked;
    state->recorder = Recorder::make(launch, job);
    state->watchdog = Watchdog::start(watchdog_store, launch, state->recorder, timeouts);
    wait_for_all(*state, "start of the world", start_timeout);
  }
  if (options.backend == Backend::kAuto) state->backend = agreed_backend(*state);
  if (options.backend != Backend::kFake) state->device = choose_device(launch);
  if (options.backend != Backend::kFake) {
    send_heartbeats(place_of(state->recorder));
    report_healthy();
  }
  return world;
}

World World::fake(GlobalRank rank, int64_t size) {
  TSR_CHECK(size > 0 && 0 <= rank.value && rank.value < size, "rank ", rank,
            " is not in a fake world of ", size, " ranks; choose a rank from 0 to size - 1");
  return connect({.launcher = "fake",
                  .rank = rank.value,
                  .world_size = size,
                  .local_rank = rank.value,
                  .local_world_size = size},
                 {.backend = Backend::kFake});
}

void* World::attached(std::type_index type, const std::function<std::shared_ptr<void>()>& make) {
  state().check_open();
  return state_->attached(type, make);
}

World* World::current() {
  auto& slot = current_slot();
  return slot ? &*slot : nullptr;
}

World& World::make_current(World world) {
  auto& slot = current_slot();
  if (slot) throw StateError("this process already has a current world; clear it first");
  return slot.emplace(std::move(world));
}

void World::clear_current() {
  current_slot().reset();
}

void World::close() {
  if (!state_ || !state_->is_open()) return;
  finish_nccl(*state_);
  if (state_->watchdog) leave_together(*state_);
  state_->close();
}

}  // namespace tessera

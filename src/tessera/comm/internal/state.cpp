#include "tessera/comm/internal/state.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tessera/base/check.h"
#include "tessera/comm/fake/factory.h"
#include "tessera/comm/gloo/factory.h"
#include "tessera/comm/nccl/factory.h"
#include "tessera/comm/shm/factory.h"

namespace tessera::comm::detail {
namespace {

// Runs of equally spaced ranks, as "first+step*count": few even in a large group.
std::string runs_of(const RankGroup& ranks) {
  std::string text;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = std::min(begin + 2, ranks.size());
    const int64_t step = ranks[end - 1].value - ranks[begin].value;
    while (end < ranks.size() && ranks[end].value - ranks[end - 1].value == step) ++end;
    text += concat(ranks[begin], "+", step, "*", end - begin, ",");
    begin = end;
  }
  return text;
}

std::string nccl_key(const GroupOptions& options) {
  const NcclOptions& nccl = options.nccl;
  return concat(nccl.high_priority_stream, ",", nccl.cga_cluster_size.value_or(-1), ",",
                nccl.min_ctas.value_or(-1), ",", nccl.max_ctas.value_or(-1), ",",
                nccl.net_name.value_or(""), ",", options.sharp, ",", options.split);
}

std::string key_of(const RankGroup& ranks, const GroupOptions& options) {
  return concat(to_string(options.lane), "/", to_string(options.backend), "/",
                options.backend == Backend::kNccl ? nccl_key(options) : "", "/", runs_of(ranks));
}

// The same on all members, unlike a counter; short, unlike the key of a large group.
std::string short_name(const std::string& key) {
  const auto lane = key.substr(0, key.find('/'));
  return concat(lane, "-", std::hex, std::hash<std::string>()(key));
}

void check_ranks(const RankGroup& ranks, int64_t world_size) {
  TSR_CHECK(!ranks.empty(), "a group needs at least 1 rank, but got none");
  for (const GlobalRank rank : ranks) {
    TSR_CHECK(0 <= rank.value && rank.value < world_size, "rank ", rank, " is not in the world of ",
              world_size, " ranks; choose 0 to ", world_size - 1);
  }
  if (std::ranges::adjacent_find(ranks, std::greater_equal()) == ranks.end()) return;  // Sorted.
  RankGroup sorted = ranks;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  TSR_CHECK(twice == sorted.end(), "rank ", *twice,
            " is twice in the ranks of a group; list every rank once");
}

using Backends = std::vector<c10::intrusive_ptr<c10d::Backend>>;

// All at once, since each may wait for the kernels of another. That may take long, too, and then
// goes on beside the program. The failure before is the one to report.
void abort_all(const Backends& backends) {
  constexpr std::chrono::seconds kLongest{10};
  std::vector<std::future<void>> ends;
  for (const auto& backend : backends) {
    std::packaged_task<void()> task([backend] { backend->abort(); });
    ends.push_back(task.get_future());
    std::thread(std::move(task)).detach();
  }
  const auto limit = std::chrono::steady_clock::now() + kLongest;
  for (const auto& end : ends) end.wait_until(limit);
}

std::unique_ptr<Engine> make_engine(Backend backend, const LocalAddress& address) {
  switch (backend) {
    case Backend::kGloo:
      return shm::make_engine(gloo::make_engine(address), address);
    case Backend::kNccl:
      return nccl::make_engine(address);
    case Backend::kFake:
      return fake::make_engine(address);
    case Backend::kAuto:
      break;
  }
  TSR_ASSERT(false, "a group has no back end");
  return nullptr;
}

}  // namespace

Communicator::Communicator(size_t size, std::shared_ptr<Recorder> recorder,
                           std::shared_ptr<RecordedGroup> recorded)
    : sent_(size),
      received_(size),
      recorder_(std::move(recorder)),
      recorded_(std::move(recorded)) {}

c10d::Backend& Communicator::backend(
    const std::function<c10::intrusive_ptr<c10d::Backend>()>& connect) {
  const std::lock_guard lock(mutex_);
  if (!backend_) {
    if (!poisoned_.empty()) throw CommError(concat(poisoned_, "; connect a new world"));
    backend_ = connect();
    const std::string engine = backend_->getBackendName();
    by_memory_ = engine == shm::kBackendName;
    partly_by_memory_ = by_memory_ || engine == shm::kHostsBackendName;
    is_nccl_ = engine == to_string(Backend::kNccl);
    if (recorder_) recorder_->set_engine(*recorded_, engine);
    if (timeout_) backend_->setTimeout(*timeout_);
  }
  return *backend_;
}

void Communicator::set_timeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (backend_) backend_->setTimeout(timeout);
}

uint64_t Communicator::next_p2p(GroupRank peer, bool is_send) {
  const std::lock_guard lock(mutex_);
  return ++(is_send ? sent_ : received_)[static_cast<size_t>(peer.value)];
}

uint64_t Communicator::next_compared(GroupRank peer, int tag, bool is_send) {
  const std::lock_guard lock(mutex_);
  return ++compared_[{peer.value, tag, is_send}];
}

std::optional<uint64_t> Communicator::record(const RecordedCall& call) {
  if (!recorder_) return std::nullopt;
  return recorder_->scheduled(recorded_, call);
}

void Communicator::poison(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (poisoned_.empty()) poisoned_ = reason;
}

bool Communicator::is_usable() const {
  const std::lock_guard lock(mutex_);
  return poisoned_.empty();
}

void Communicator::check_usable(const std::string& group) const {
  const std::lock_guard lock(mutex_);
  if (poisoned_.empty()) return;
  throw CommError(concat("group ", group, " is unusable: ", poisoned_, "; connect a new world"));
}

c10::intrusive_ptr<c10d::Backend> Communicator::close(End end) {
  const std::lock_guard lock(mutex_);
  // Destroying one of Gloo waits for its operations; an abandoned one may never end.
  const bool abandons = !poisoned_.empty() || end == End::kAbandon;
  poisoned_ = "its world was closed";
  if (abandons) {
    auto abandoned = backend_;
    (void)backend_.release();
    return abandoned;
  }
  if (backend_) backend_->shutdown();  // NCCL warns of communicators that are destroyed without.
  backend_.reset();
  return {};
}

std::shared_ptr<Engine> WorldState::engine(Backend wanted) {
  const std::lock_guard lock(mutex_);
  if (!engines_.contains(wanted)) engines_[wanted] = make_engine(wanted, address);
  return engines_[wanted];
}

std::shared_ptr<Communicator> WorldState::communicator(
    const std::string& key, const std::function<std::shared_ptr<Communicator>()>& make) {
  const std::lock_guard lock(mutex_);
  auto& communicator = communicators_[key];
  if (!communicator) communicator = make();
  return communicator;
}

int64_t WorldState::count_own(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return own_[key]++;
}

void* WorldState::attached(std::type_index type,
                           const std::function<std::shared_ptr<void>()>& make) {
  const std::lock_guard lock(attached_mutex_);
  auto& value = attached_[type];
  if (!value) value = make();
  return value.get();
}

bool WorldState::is_open() const {
  const std::lock_guard lock(mutex_);
  return !closed_;
}

void WorldState::check_open() const {
  if (!is_open()) throw StateError("the world was closed; connect again before using its groups");
}

// A communicator that connects holds its own mutex and takes that of the world. So none is asked
// while this holds the latter.
std::vector<std::shared_ptr<Communicator>> WorldState::communicators() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Communicator>> all;
  for (const auto& [key, communicator] : communicators_) all.push_back(communicator);
  return all;
}

bool WorldState::can_finish_nccl() const {
  const std::vector<std::shared_ptr<Communicator>> all = communicators();
  return std::ranges::any_of(all, &Communicator::is_nccl) &&
         std::ranges::all_of(all, &Communicator::is_usable);
}

void WorldState::give_up_nccl(const std::string& reason) const {
  for (const auto& communicator : communicators()) {
    if (communicator->is_nccl()) communicator->poison(reason);
  }
}

void WorldState::close() {
  // Attached values may hold groups, and groups hold this.
  std::map<std::type_index, std::shared_ptr<void>> attached;
  {
    const std::lock_guard lock(attached_mutex_);
    attached.swap(attached_);
  }
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  const std::vector<std::shared_ptr<Communicator>> all = communicators();
  const bool abandons = !nccl_has_ended && std::ranges::any_of(all, &Communicator::is_nccl);
  const bool has_failed = !std::ranges::all_of(all, &Communicator::is_usable);
  Backends of_nccl;
  for (const auto& communicator : all) {
    const auto abandoned =
        communicator->close(abandons ? Communicator::End::kAbandon : Communicator::End::kRelease);
    if (abandoned && communicator->is_nccl()) of_nccl.push_back(abandoned);
  }
  if (has_failed && !of_nccl.empty()) abort_all(of_nccl);
  const std::lock_guard lock(mutex_);
  communicators_.clear();
  engines_.clear();
}

RankGroup all_ranks_of(const LaunchInfo& launch) {
  RankGroup ranks;
  for (int64_t rank = 0; rank < launch.world_size; ++rank) ranks.push_back(GlobalRank{rank});
  return ranks;
}

void watch_all(const WorldState& world, const std::string& what, std::chrono::milliseconds timeout,
               const std::function<void(const Waiting&)>& wait) {
  const RankGroup all_ranks = all_ranks_of(world.launch);
  try {
    wait({.what = [&] { return what; },
          .members = all_ranks,
          .timeout = timeout,
          .watchdog = world.watchdog.get(),
          .recorder = world.recorder.get()});
  } catch (const CommError& error) {
    world.give_up_nccl(error.what());
    throw;
  }
}

GroupState::GroupState(std::shared_ptr<WorldState> world, RankGroup ranks,
                       const GroupOptions& options, Purpose purpose)
    : world_(std::move(world)), ranks_(std::move(ranks)), options_(options), purpose_(purpose) {
  check_ranks(ranks_, world_->launch.world_size);
  const bool is_fake = world_->backend == Backend::kFake;  // Overrides options_.backend.
  if (is_fake || options_.backend == Backend::kAuto) options_.backend = world_->backend;
  if (!options_.timeout) options_.timeout = world_->timeout;
  if (options_.name.empty()) options_.name = concat("{", join(ranks_, ","), "}");
  key_ = concat(is_quiet() ? "quiet/" : "", key_of(ranks_, options_));
  if (options_.own) key_ += concat("/", world_->count_own(key_));
  const auto at = std::ranges::find(ranks_, GlobalRank{world_->launch.rank});
  if (at == ranks_.end()) return;
  rank_ = GroupRank{at - ranks_.begin()};
  if (ranks_.size() == 1) return;
  communicator_ = world_->communicator(key_, [this] {
    const auto recorder = is_quiet() ? nullptr : world_->recorder;
    const auto recorded =
        recorder ? recorder->add_group(short_name(key_), name(), ranks_) : nullptr;
    return std::make_shared<Communicator>(ranks_.size(), recorder, recorded);
  });
  if (world_->checked && !is_quiet()) {
    comparing_ = over_gloo(concat(name(), " (comparing calls)"), Purpose::kQuiet);
  }
  if (backend() == Backend::kNccl) cpu_twin_ = over_gloo(name(), Purpose::kUser);
}

std::shared_ptr<GroupState> GroupState::over_gloo(const std::string& name, Purpose purpose) const {
  GroupOptions options = options_;
  options.backend = Backend::kGloo;
  options.nccl = {};
  options.name = name;
  return std::make_shared<GroupState>(world_, ranks_, options, purpose);
}

void GroupState::set_timeout(std::chrono::milliseconds timeout) {
  TSR_CHECK(timeout.count() > 0, "the timeout must be ≥ 1 ms, but is ", timeout.count(), " ms");
  options_.timeout = timeout;
  if (communicator_) communicator_->set_timeout(timeout);
  if (cpu_twin_) cpu_twin_->set_timeout(timeout);
}

c10d::Backend& GroupState::connect(StoreClient client) {
  world_->check_open();
  TSR_ASSERT(communicator_, "a group without communicator was connected");
  communicator_->check_usable(name());
  try {
    c10d::Backend& backend = communicator_->backend([&] { return make_backend(client); });
    if (comparing_) (void)comparing_->connect(client);
    return backend;
  } catch (const CommError& error) {
    communicator_->poison(error.what());
    throw;
  }
}

std::shared_ptr<GroupState> GroupState::all_ranks() const {
  return std::make_shared<GroupState>(world_, all_ranks_of(world_->launch),
                                      GroupOptions{.name = "world", .backend = Backend::kNccl});
}

void GroupState::request_split(StoreClient client, CommunicatorRequest& request) const {
  if (!world_->splits_nccl || backend() != Backend::kNccl) return;
  const std::shared_ptr<GroupState> all = all_ranks();
  const bool is_parent = key_ == all->key();
  if (!is_parent && !options_.split) return;
  request.connected_device = world_->device;
  if (is_parent) return;
  request.parent = c10::intrusive_ptr<c10d::Backend>::reclaim_copy(&all->connect(client));
  request.color = static_cast<int>(std::ranges::min(ranks_).value);
}

c10::intrusive_ptr<c10d::Backend> GroupState::make_backend(StoreClient client) {
  CommunicatorRequest made{.name = name(),
                           .ranks = ranks_,
                           .rank = static_cast<int>(rank_->value),
                           .size = static_cast<int>(ranks_.size()),
                           .timeout = *options_.timeout,
                           .nccl = options_.nccl};
  request_split(client, made);
  // All ranks take part in a split.
  const RankGroup members = made.parent ? all_ranks_of(world_->launch) : ranks_;
  auto create = [engine = world_->engine(options_.backend), store = world_->store,
                 own = client == StoreClient::kOwn, key = key_,
                 request = std::move(made)]() mutable {
    if (store) {
      request.store = c10::make_intrusive<c10d::PrefixStore>(key, own ? store->clone() : store);
    }
    return engine->create(request);
  };
  return world_->watchdog ? create_watched(members, create) : create();
}

// Connecting blocks the engine, possibly for long, so another thread watches.
c10::intrusive_ptr<c10d::Backend> GroupState::create_watched(
    const RankGroup& members, std::function<c10::intrusive_ptr<c10d::Backend>()> create) {
  const auto made = std::make_shared<c10::intrusive_ptr<c10d::Backend>>();
  const Waiting waiting{.what = [this] { return concat("connect of group ", name()); },
                        .members = members,
                        .timeout = *options_.timeout,
                        .watchdog = world_->watchdog.get(),
                        .recorder = world_->recorder.get()};
  world_->recorder->set_place(waiting.what());
  run_watched(waiting, [create = std::move(create), made] { *made = create(); });
  world_->recorder->set_place("");
  return *made;
}

}  // namespace tessera::comm::detail

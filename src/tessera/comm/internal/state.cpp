#include "tessera/comm/internal/state.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tessera/base/check.h"
#include "tessera/comm/fake/factory.h"
#include "tessera/comm/gloo/factory.h"
#include "tessera/comm/nccl/factory.h"

namespace tessera {
namespace {

std::string key_of(const RankGroup& ranks, const GroupOptions& options) {
  const NcclOptions& nccl = options.nccl;
  return concat(to_string(options.lane), "/", to_string(options.backend), "/",
                nccl.high_priority_stream, ",", nccl.cga_cluster_size.value_or(-1), ",",
                nccl.min_ctas.value_or(-1), ",", nccl.max_ctas.value_or(-1), ",",
                nccl.net_name.value_or(""), "/", join(ranks, ","));
}

void check_ranks(const RankGroup& ranks, int64_t world_size) {
  TSR_CHECK(!ranks.empty(), "a group of no ranks was asked for; name at least 1 rank");
  RankGroup sorted = ranks;
  std::ranges::sort(sorted);
  for (const GlobalRank rank : ranks) {
    TSR_CHECK(0 <= rank.value && rank.value < world_size, "rank ", rank, " is not in the world of ",
              world_size, " ranks; choose 0 to ", world_size - 1);
  }
  const auto twice = std::ranges::adjacent_find(sorted);
  TSR_CHECK(twice == sorted.end(), "rank ", *twice,
            " stands twice in the ranks of a group; list every rank once");
}

std::unique_ptr<Engine> make_engine(Backend backend, const LocalAddress& address) {
  switch (backend) {
    case Backend::kGloo:
      return gloo::make_engine(address);
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

c10d::Backend& Communicator::backend(
    const std::function<c10::intrusive_ptr<c10d::Backend>()>& connect) {
  const std::lock_guard lock(mutex_);
  if (!backend_) {
    backend_ = connect();
    if (timeout_) backend_->setTimeout(*timeout_);
  }
  return *backend_;
}

void Communicator::set_timeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (backend_) backend_->setTimeout(timeout);
}

void Communicator::poison(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (poisoned_.empty()) poisoned_ = reason;
}

void Communicator::check_usable(const std::string& group) const {
  const std::lock_guard lock(mutex_);
  if (poisoned_.empty()) return;
  throw CommError(
      concat("group ", group, " cannot be used any more: ", poisoned_, "; make a new world"));
}

void Communicator::close() {
  const std::lock_guard lock(mutex_);
  backend_.reset();
  poisoned_ = "its world was closed";
}

Engine& WorldState::engine(Backend wanted) {
  const std::lock_guard lock(mutex_);
  auto& engine = engines_[wanted];
  if (!engine) engine = make_engine(wanted, address);
  return *engine;
}

std::shared_ptr<Communicator> WorldState::communicator(const std::string& key) {
  const std::lock_guard lock(mutex_);
  auto& communicator = communicators_[key];
  if (!communicator) communicator = std::make_shared<Communicator>();
  return communicator;
}

void WorldState::check_open() const {
  const std::lock_guard lock(mutex_);
  if (closed_) throw StateError("the world was closed; connect again before using its groups");
}

void WorldState::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [key, communicator] : communicators_) communicator->close();
  communicators_.clear();
  engines_.clear();
}

GroupState::GroupState(std::shared_ptr<WorldState> world, RankGroup ranks,
                       const GroupOptions& options)
    : world_(std::move(world)), ranks_(std::move(ranks)), options_(options) {
  check_ranks(ranks_, world_->launch.world_size);
  if (options_.backend == Backend::kAuto) options_.backend = world_->backend;
  if (!options_.timeout) options_.timeout = world_->timeout;
  if (options_.name.empty()) options_.name = concat("{", join(ranks_, ","), "}");
  key_ = key_of(ranks_, options_);
  const auto at = std::ranges::find(ranks_, GlobalRank{world_->launch.rank});
  if (at == ranks_.end()) return;
  rank_ = GroupRank{at - ranks_.begin()};
  if (ranks_.size() > 1) communicator_ = world_->communicator(key_);
}

void GroupState::set_timeout(std::chrono::milliseconds timeout) {
  TSR_CHECK(timeout.count() > 0, "a timeout of ", timeout.count(), " ms is not positive");
  options_.timeout = timeout;
  if (communicator_) communicator_->set_timeout(timeout);
}

c10d::Backend& GroupState::connect(StoreClient client) {
  world_->check_open();
  TSR_ASSERT(communicator_, "a group without communicator was connected");
  communicator_->check_usable(name());
  return communicator_->backend([this, client] {
    c10::intrusive_ptr<c10d::Store> store;
    if (world_->store) {
      store = client == StoreClient::kOwn ? world_->store->clone() : world_->store;
      store = c10::make_intrusive<c10d::PrefixStore>(key_, store);
    }
    try {
      return world_->engine(options_.backend)
          .create({.store = store,
                   .rank = static_cast<int>(rank_->value),
                   .size = static_cast<int>(ranks_.size()),
                   .timeout = *options_.timeout,
                   .nccl = options_.nccl});
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      std::throw_with_nested(CommError(concat("group ", name(), " of ", ranks_.size(),
                                              " ranks could not be connected: ", error.what())));
    }
  });
}

}  // namespace tessera

#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <typeindex>
#include <vector>

#include "tessera/comm/internal/engine.h"
#include "tessera/comm/internal/recorder.h"
#include "tessera/comm/internal/waiting.h"
#include "tessera/comm/internal/watchdog.h"
#include "tessera/comm/launch_info.h"
#include "tessera/comm/options.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// The live connection of the members of a group. Groups of equal ranks, lane and options share
/// one.
class Communicator {
 public:
  /// `recorder` is null in a fake world and for the groups that compare calls.
  Communicator(size_t size, std::shared_ptr<Recorder> recorder,
               std::shared_ptr<RecordedGroup> recorded);

  /// Connects on the first call; CommError if that fails.
  c10d::Backend& backend(const std::function<c10::intrusive_ptr<c10d::Backend>()>& connect);
  void set_timeout(std::chrono::milliseconds timeout);
  /// Whether its ranks, or those of each host, share memory; known once it is connected.
  bool by_memory() const { return by_memory_; }
  bool partly_by_memory() const { return partly_by_memory_; }
  /// Whether NCCL made it; known once it is connected.
  bool is_nccl() const { return is_nccl_; }

  /// Collectives have one count; messages have one per peer and direction.
  uint64_t next_sequence() { return ++sequence_; }
  uint64_t sequence() const { return sequence_; }
  uint64_t next_p2p(GroupRank peer, bool is_send);
  /// Count of messages with the same tag, for checked mode: these match in order.
  uint64_t next_compared(GroupRank peer, int tag, bool is_send);

  /// The number of the record; empty without a recorder.
  std::optional<uint64_t> record(const RecordedCall& call);
  Recorder* recorder() const { return recorder_.get(); }
  /// The same on all members; empty without a recorder.
  std::string name() const { return recorded_ ? recorded_->flight.name : ""; }

  /// Marks the connection as unusable: an operation on it was abandoned or failed.
  void poison(const std::string& reason);
  bool is_usable() const;
  /// CommError if the connection is unusable.
  void check_usable(const std::string& group) const;
  enum class End {
    kRelease,  // Waits for its operations.
    kAbandon,  // Waits for nothing.
  };
  /// The back end if it was abandoned: then it is never destroyed.
  c10::intrusive_ptr<c10d::Backend> close(End end);

 private:
  mutable std::mutex mutex_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::optional<std::chrono::milliseconds> timeout_;  // May be set before the connection.
  std::string poisoned_;
  std::atomic<bool> by_memory_ = false;
  std::atomic<bool> partly_by_memory_ = false;
  std::atomic<bool> is_nccl_ = false;
  std::atomic<uint64_t> sequence_ = 0;
  std::vector<uint64_t> sent_;      // By group rank.
  std::vector<uint64_t> received_;  // By group rank.
  std::map<std::tuple<int64_t, int, bool>, uint64_t> compared_;
  const std::shared_ptr<Recorder> recorder_;
  const std::shared_ptr<RecordedGroup> recorded_;
};

class WorldState {
 public:
  LaunchInfo launch;
  Backend backend = Backend::kGloo;
  c10::Device device = c10::kCPU;  // The device of this process.
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;  // Null in a world of one rank and in a fake one.
  LocalAddress address;
  std::shared_ptr<Recorder> recorder;  // Null without a store.
  std::shared_ptr<Watchdog> watchdog;  // The same.
  bool checked = false;                // TESSERA_CHECK_COLLECTIVES=1.
  bool splits_nccl = false;            // TESSERA_NCCL_SPLIT=1.
  bool nccl_has_ended = false;         // All its operations on this rank, before close().

  std::shared_ptr<Engine> engine(Backend wanted);
  /// The communicator for this key, made on the first call.
  std::shared_ptr<Communicator> communicator(
      const std::string& key, const std::function<std::shared_ptr<Communicator>()>& make);
  /// How many groups with their own communicator were made for this key before.
  int64_t count_own(const std::string& key);
  /// A dialect's state of this type, made on the first call.
  void* attached(std::type_index type, const std::function<std::shared_ptr<void>()>& make);
  bool is_open() const;
  void check_open() const;
  /// Whether there are operations of NCCL that will end: none of its world has failed.
  bool can_finish_nccl() const;
  /// Marks what NCCL connects as unusable: the GPU may wait for ever for what it has sent.
  void give_up_nccl(const std::string& reason) const;
  /// Destroying a communicator of NCCL aborts its operations, for which it waits for the GPU, maybe
  /// for ever if a rank is lost. So it abandons all unless `nccl_has_ended`. If one has failed, it
  /// aborts those of NCCL, since what the GPU has waits behind them.
  void close();

 private:
  std::vector<std::shared_ptr<Communicator>> communicators() const;

  mutable std::mutex mutex_;
  std::mutex attached_mutex_;
  std::map<std::type_index, std::shared_ptr<void>> attached_;
  std::map<std::string, int64_t> own_;
  std::map<Backend, std::shared_ptr<Engine>> engines_;
  std::map<std::string, std::shared_ptr<Communicator>> communicators_;
  bool closed_ = false;
};

RankGroup all_ranks_of(const LaunchInfo& launch);

/// Calls `wait`, during which all ranks of the world are watched. If that fails, NCCL is given up.
void watch_all(const WorldState& world, const std::string& what, std::chrono::milliseconds timeout,
               const std::function<void(const Waiting&)>& wait);

/// Operations of a quiet group are neither recorded nor compared: it is used to compare calls.
enum class Purpose { kUser, kQuiet };

class GroupState {
 public:
  GroupState(std::shared_ptr<WorldState> world, RankGroup ranks, const GroupOptions& options,
             Purpose purpose = Purpose::kUser);

  const std::string& name() const { return options_.name; }
  const RankGroup& ranks() const { return ranks_; }
  std::optional<GroupRank> rank() const { return rank_; }
  Backend backend() const { return options_.backend; }
  Lane lane() const { return options_.lane; }
  std::chrono::milliseconds timeout() const { return *options_.timeout; }
  const NcclOptions& nccl() const { return options_.nccl; }
  void set_timeout(std::chrono::milliseconds timeout);
  /// Groups with equal keys are equal and share a communicator.
  const std::string& key() const { return key_; }

  bool is_quiet() const { return purpose_ == Purpose::kQuiet; }
  /// The quiet Gloo group of the same ranks in which the members compare their calls. Null unless
  /// the world is checked.
  const std::shared_ptr<GroupState>& comparing() const { return comparing_; }
  /// The same ranks over Gloo, for the CPU tensors of an NCCL group; null for other groups.
  const std::shared_ptr<GroupState>& cpu_twin() const { return cpu_twin_; }
  WorldState& world() const { return *world_; }

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  /// How a new communicator connects to the store. A waiting store client blocks all its users. So
  /// groups that threads make concurrently have one client each; the groups of a plan are made one
  /// after the other and share the client of the world.
  enum class StoreClient { kOwn, kShared };
  /// The live back end; connects on the first call. Only for members of groups of several ranks.
  c10d::Backend& connect(StoreClient client = StoreClient::kOwn);

 private:
  c10::intrusive_ptr<c10d::Backend> make_backend(StoreClient client);
  /// The group of all ranks, from whose communicator others are split.
  std::shared_ptr<GroupState> all_ranks() const;
  void request_split(StoreClient client, CommunicatorRequest& request) const;
  c10::intrusive_ptr<c10d::Backend> create_watched(
      const RankGroup& members, std::function<c10::intrusive_ptr<c10d::Backend>()> create);
  std::shared_ptr<GroupState> over_gloo(const std::string& name, Purpose purpose) const;

  std::shared_ptr<WorldState> world_;
  RankGroup ranks_;
  std::optional<GroupRank> rank_;
  GroupOptions options_;
  Purpose purpose_;
  std::string key_;
  std::shared_ptr<Communicator> communicator_;  // Null for groups of one and for non-members.
  std::shared_ptr<GroupState> comparing_;
  std::shared_ptr<GroupState> cpu_twin_;
};

}  // namespace tessera::comm::detail

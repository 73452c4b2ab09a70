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
#include "tessera/comm/internal/watchdog.h"
#include "tessera/comm/launch_info.h"
#include "tessera/comm/options.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// One live connection among the members of a group. Several groups of equal ranks, lane and
/// options share one.
class Communicator {
 public:
  /// Without a recorder nothing is recorded: in a fake world, and for what compares calls.
  Communicator(size_t size, std::shared_ptr<Recorder> recorder,
               std::shared_ptr<RecordedGroup> recorded);

  /// Connects on the first call; throws CommError where that fails.
  c10d::Backend& backend(const std::function<c10::intrusive_ptr<c10d::Backend>()>& connect);
  void set_timeout(std::chrono::milliseconds timeout);

  /// Collectives count together, messages by their direction and the other end.
  uint64_t next_sequence() { return ++sequence_; }
  uint64_t sequence() const { return sequence_; }
  uint64_t next_p2p(GroupRank peer, bool is_send);
  /// Messages with the same tag, for checked mode: those are the ones that meet in order.
  uint64_t next_compared(GroupRank peer, int tag, bool is_send);

  /// The record's number; nothing where nothing is recorded.
  std::optional<uint64_t> record(const RecordedCall& call);
  Recorder* recorder() const { return recorder_.get(); }

  /// Marks the connection as lost: an operation on it was abandoned or has failed.
  void poison(const std::string& reason);
  /// Throws CommError where it is lost.
  void check_usable(const std::string& group) const;
  /// Lets go of the connection.
  void close();

 private:
  mutable std::mutex mutex_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::optional<std::chrono::milliseconds> timeout_;  // Set before the connection was made.
  std::string poisoned_;
  std::atomic<uint64_t> sequence_ = 0;
  std::vector<uint64_t> sent_;      // By group rank.
  std::vector<uint64_t> received_;  // The same.
  std::map<std::tuple<int64_t, int, bool>, uint64_t> compared_;
  const std::shared_ptr<Recorder> recorder_;
  const std::shared_ptr<RecordedGroup> recorded_;
};

class WorldState {
 public:
  LaunchInfo launch;
  Backend backend = Backend::kGloo;
  c10::Device device = c10::kCPU;  // The one that this process computes on.
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;  // Null in a world of one, and in a fake one.
  LocalAddress address;
  std::shared_ptr<Recorder> recorder;  // Null where there is no store.
  std::shared_ptr<Watchdog> watchdog;  // The same.
  bool checked = false;                // TESSERA_CHECK_COLLECTIVES=1.

  std::shared_ptr<Engine> engine(Backend wanted);
  /// The communicator of this description, made on the first call; the same for equal descriptions.
  std::shared_ptr<Communicator> communicator(
      const std::string& key, const std::function<std::shared_ptr<Communicator>()>& make);
  /// How many groups with a communicator of their own were made of this description before.
  int64_t count_own(const std::string& key);
  /// The dialect's value of this type, made on the first call.
  void* attached(std::type_index type, const std::function<std::shared_ptr<void>()>& make);
  bool is_open() const;
  void check_open() const;
  void close();

 private:
  mutable std::mutex mutex_;
  std::mutex attached_mutex_;
  std::map<std::type_index, std::shared_ptr<void>> attached_;
  std::map<std::string, int64_t> own_;
  std::map<Backend, std::shared_ptr<Engine>> engines_;
  std::map<std::string, std::shared_ptr<Communicator>> communicators_;
  bool closed_ = false;
};

/// A quiet group's operations are neither recorded nor compared: it serves the comparing itself.
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
  void set_timeout(std::chrono::milliseconds timeout);
  /// What makes two groups equal, and their communicators one.
  const std::string& key() const { return key_; }

  bool is_quiet() const { return purpose_ == Purpose::kQuiet; }
  /// Where the members compare what they are about to do: a quiet Gloo group of the same ranks.
  /// Null unless the world is checked.
  const std::shared_ptr<GroupState>& comparing() const { return comparing_; }
  /// The same ranks over Gloo, for the CPU tensors of an NCCL group; null where it is not needed.
  const std::shared_ptr<GroupState>& cpu_twin() const { return cpu_twin_; }
  WorldState& world() const { return *world_; }

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  /// How a communicator that is made now talks to the store. A store's client blocks all its users
  /// while one of them waits, so groups that threads make side by side have a client each; a plan's
  /// groups are made one after the other and share the world's.
  enum class StoreClient { kOwn, kShared };
  /// The live back end; connects on the first use. Only for members of groups of several ranks.
  c10d::Backend& connect(StoreClient client = StoreClient::kOwn);

 private:
  c10::intrusive_ptr<c10d::Backend> make_backend(StoreClient client);
  c10::intrusive_ptr<c10d::Backend> create_watched(
      std::function<c10::intrusive_ptr<c10d::Backend>()> create);
  std::shared_ptr<GroupState> over_gloo(const std::string& name, Purpose purpose) const;

  std::shared_ptr<WorldState> world_;
  RankGroup ranks_;
  std::optional<GroupRank> rank_;
  GroupOptions options_;
  Purpose purpose_;
  std::string key_;
  std::shared_ptr<Communicator> communicator_;  // Null for groups of one and for others' groups.
  std::shared_ptr<GroupState> comparing_;
  std::shared_ptr<GroupState> cpu_twin_;
};

}  // namespace tessera::comm::detail

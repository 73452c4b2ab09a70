#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/comm/internal/engine.h"
#include "tessera/comm/launch_info.h"
#include "tessera/comm/options.h"
#include "tessera/topology/rank.h"

namespace tessera {

/// One live connection among the members of a group. Several groups of equal ranks, lane and
/// options share one.
class Communicator {
 public:
  /// Connects on the first call; throws CommError where that fails.
  c10d::Backend& backend(const std::function<c10::intrusive_ptr<c10d::Backend>()>& connect);
  void set_timeout(std::chrono::milliseconds timeout);

  uint64_t next_sequence() { return ++sequence_; }
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
};

class WorldState {
 public:
  LaunchInfo launch;
  Backend backend = Backend::kGloo;
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;  // Null in a world of one, and in a fake one.
  LocalAddress address;

  Engine& engine(Backend wanted);
  /// The communicator of this description; the same object for equal descriptions.
  std::shared_ptr<Communicator> communicator(const std::string& key);
  void check_open() const;
  void close();

 private:
  mutable std::mutex mutex_;
  std::map<Backend, std::unique_ptr<Engine>> engines_;
  std::map<std::string, std::shared_ptr<Communicator>> communicators_;
  bool closed_ = false;
};

class GroupState {
 public:
  GroupState(std::shared_ptr<WorldState> world, RankGroup ranks, const GroupOptions& options);

  const std::string& name() const { return options_.name; }
  const RankGroup& ranks() const { return ranks_; }
  std::optional<GroupRank> rank() const { return rank_; }
  Backend backend() const { return options_.backend; }
  Lane lane() const { return options_.lane; }
  std::chrono::milliseconds timeout() const { return *options_.timeout; }
  void set_timeout(std::chrono::milliseconds timeout);
  /// What makes two groups equal, and their communicators one.
  const std::string& key() const { return key_; }

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  /// How a communicator that is made now talks to the store. A store's client blocks all its users
  /// while one of them waits, so groups that threads make side by side have a client each; a plan's
  /// groups are made one after the other and share the world's.
  enum class StoreClient { kOwn, kShared };
  /// The live back end; connects on the first use. Only for members of groups of several ranks.
  c10d::Backend& connect(StoreClient client = StoreClient::kOwn);

 private:
  std::shared_ptr<WorldState> world_;
  RankGroup ranks_;
  std::optional<GroupRank> rank_;
  GroupOptions options_;
  std::string key_;
  std::shared_ptr<Communicator> communicator_;  // Null for groups of one and for others' groups.
};

}  // namespace tessera

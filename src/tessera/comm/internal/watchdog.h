#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "tessera/comm/internal/heartbeat.h"
#include "tessera/comm/internal/recorder.h"
#include "tessera/comm/internal/stall_detector.h"
#include "tessera/comm/launch_info.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {

/// When a rank without heartbeats is lost.
struct WatchdogTimeouts {
  std::chrono::milliseconds interval;  // Between two heartbeats of a rank.
  std::chrono::milliseconds suspect;   // Without a heartbeat, if its connections broke.
  std::chrono::milliseconds silence;   // Without a heartbeat, in any case.
  bool has_launcher = false;           // It finds lost ranks sooner, and stops this one.

  /// Large worlds send heartbeats less often.
  static WatchdogTimeouts of(int64_t world_size, std::chrono::milliseconds silence,
                             bool has_launcher);
};

/// A collective that a rank waits for.
struct AwaitedCall {
  std::string communicator;  // FlightGroup::name.
  int64_t number = 0;        // Among the collectives of the communicator, from 1.
  std::string what;          // "all_reduce #17 of group dp".
};

/// Writes this rank's heartbeats to the store, and watches those of other ranks.
///
/// Only the watchdog's own thread uses the store: if the store's host is gone, this thread hangs,
/// and the threads that wait for an operation notice it.
class Watchdog {
 public:
  /// Returns after the first heartbeat.
  static std::shared_ptr<Watchdog> start(const c10::intrusive_ptr<c10d::Store>& store,
                                         const LaunchInfo& launch,
                                         const std::shared_ptr<Recorder>& recorder,
                                         const WatchdogTimeouts& timeouts);

  const WatchdogTimeouts& timeouts() const { return timeouts_; }

  /// During its lifetime the watchdog watches these ranks. It calls `abort` once if the job fails.
  class Scope {
   public:
    Scope(Watchdog& watchdog, std::span<const GlobalRank> ranks, std::function<void()> abort = {},
          std::optional<AwaitedCall> call = std::nullopt);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Watchdog;
    /// The ranks that this process watches; in a large group only its next neighbours.
    std::vector<int64_t> others() const;

    Watchdog& watchdog_;
    std::span<const GlobalRank> ranks_;
    std::function<void()> abort_;
    std::optional<AwaitedCall> call_;
    std::list<Scope*>::iterator place_;
  };

  /// Why the job failed, if that is known; the same text on all ranks.
  std::optional<std::string> failure() const;
  /// Call it with a Scope if the engine has lost a connection: waits until the lost rank is known.
  /// Empty if all ranks are alive.
  std::optional<std::string> wait_for_failure();
  /// "ranks 0, 1, 3 are in all_reduce #17 of group dp; rank 2 is in barrier #16 of group world".
  std::string report(const Scope& scope);
  /// Publishes that the job failed, unless there already is a reason. Returns the first reason.
  std::string publish(const std::string& failure);
  /// Notes an error of this rank, for the reason if it leaves without closing the world.
  void note(const std::string& error);
  /// On the rank that hosts the store: waits until the others could read why the job failed.
  void linger() const;
  /// Stops the heartbeats. If `reason` is not empty, the others are told it and this rank is lost.
  void stop(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::optional<Heartbeat> heartbeat;
    Clock::time_point since;  // When this process first saw it.
  };

  Watchdog(c10::intrusive_ptr<c10d::Store> store, const LaunchInfo& launch,
           std::shared_ptr<Recorder> recorder, const WatchdogTimeouts& timeouts);
  void run();
  void tick();
  void send_heartbeat(const std::string& end);
  void check_failure_key();
  void check_heartbeats(const std::vector<int64_t>& ranks);
  /// Describes a lost rank, given the heartbeats that were read after `now`; empty if there is
  /// none.
  std::optional<std::string> find_lost_rank(const std::vector<int64_t>& ranks,
                                            Clock::time_point now) const;
  /// Describes a rank that will not make a call for which this one waits; empty if there is none.
  std::optional<std::string> find_rank_that_left() const;
  std::string announce(const std::string& failure);
  void fail(const std::string& failure);
  std::vector<int64_t> watched_ranks() const;
  std::optional<std::string> store_failure() const;
  std::optional<std::string> known_failure() const;
  /// The time since a heartbeat, without what this process has missed in a stall.
  Clock::duration awake_since(Clock::time_point sign, Clock::time_point now) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const LaunchInfo launch_;
  const std::shared_ptr<Recorder> recorder_;
  const WatchdogTimeouts timeouts_;
  int64_t num_heartbeats_ = 0;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::list<Scope*> scopes_;
  std::map<int64_t, Seen> seen_;
  std::optional<std::string> failure_;
  std::optional<std::string> to_publish_;
  std::optional<std::string> end_;  // If set, the thread ends; the last heartbeat has this reason.
  std::string store_error_;
  std::string noted_;
  Clock::time_point answered_ = Clock::now();  // The store's last answer.
  Clock::time_point suspicious_until_{};
  const StallDetector stall_detector_;
  bool ended_ = false;
};

}  // namespace tessera::comm::detail

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

/// How long a rank may give no sign of life.
struct WatchdogTimeouts {
  std::chrono::milliseconds interval;  // Between two heartbeats of a rank.
  std::chrono::milliseconds suspect;  // Silence after which a rank is lost whose connections broke.
  std::chrono::milliseconds silence;  // Silence after which any rank is lost.

  /// A store answers some thousand requests a second, so that large worlds send heartbeats less
  /// often.
  static WatchdogTimeouts of(int64_t world_size, std::chrono::milliseconds silence);
};

/// Gives this rank's signs of life through the store, and notices when others give none.
///
/// A thread of its own does all talking to the store: where the store's host is gone, it is this
/// thread that hangs, and those that wait for an operation see that it does.
class Watchdog {
 public:
  /// Returns after the first heartbeat.
  static std::shared_ptr<Watchdog> start(const c10::intrusive_ptr<c10d::Store>& store,
                                         const LaunchInfo& launch,
                                         const std::shared_ptr<Recorder>& recorder,
                                         const WatchdogTimeouts& timeouts);

  const WatchdogTimeouts& timeouts() const { return timeouts_; }

  /// While it lives, the watch looks after these ranks; `abort` is called once when the job is
  /// known to have failed.
  class Scope {
   public:
    Scope(Watchdog& watchdog, std::span<const GlobalRank> ranks, std::function<void()> abort = {});
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Watchdog;
    /// The ranks that this process looks after; in a large group each rank has its neighbours.
    std::vector<int64_t> others() const;

    Watchdog& watchdog_;
    std::span<const GlobalRank> ranks_;
    std::function<void()> abort_;
    std::list<Scope*>::iterator place_;
  };

  /// Why the job has failed, where that is known: the same words on all ranks.
  std::optional<std::string> failure() const;
  /// To be called by the holder of a scope whose engine has lost a connection: waits until the
  /// missing rank is known. Nothing where all ranks turn out to be alive.
  std::optional<std::string> wait_for_failure();
  /// "ranks 0, 1, 3 are in all_reduce #17 of group dp; rank 2 is in barrier #16 of group world".
  std::string report(const Scope& scope);
  /// Tells all ranks that the job has failed, unless another reason came first. Returns the first.
  std::string publish(const std::string& failure);
  /// What went wrong on this rank; its last words tell it, should it leave without closing.
  void note(const std::string& error);
  /// The rank that holds the store stays until the others could read why the job failed.
  void linger() const;
  /// No more signs of life. Where `reason` is not empty it is the last one, and the others count
  /// this rank as lost.
  void stop(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::optional<Heartbeat> heartbeat;
    Clock::time_point since;  // When it was first seen, by this process's clock.
  };

  Watchdog(c10::intrusive_ptr<c10d::Store> store, const LaunchInfo& launch,
           std::shared_ptr<Recorder> recorder, const WatchdogTimeouts& timeouts);
  void run();
  void tick();
  void send_heartbeat(const std::string& end);
  void check_failure_key();
  void check_heartbeats(const std::vector<int64_t>& ranks);
  /// Who is lost by what was read after `now`.
  std::optional<std::string> find_lost_rank(const std::vector<int64_t>& ranks,
                                            Clock::time_point now) const;
  std::string announce(const std::string& failure);
  void fail(const std::string& failure);
  std::vector<int64_t> watched_ranks() const;
  std::optional<std::string> store_failure() const;
  std::optional<std::string> known_failure() const;
  /// The time between a sign of another one and now in which this process could have noticed more.
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
  std::optional<std::string> end_;  // Set: the thread is to end, with these last words.
  std::string store_error_;
  std::string noted_;
  Clock::time_point answered_ = Clock::now();  // The store's last answer.
  Clock::time_point suspicious_until_{};
  const StallDetector stall_detector_;
  bool ended_ = false;
};

}  // namespace tessera::comm::detail

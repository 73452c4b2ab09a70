#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/launch/environment.h"
#include "tessera/launch/rank_process.h"

namespace tessera TSR_API {

/// One attempt of this node's ranks, from their start until no process of them is left.
class LocalJob {
 public:
  LocalJob(const LaunchOptions& options, const StartMessage& start, const std::string& program,
           const std::string& folder, EventLoop& loop, Guard& guard, Screen& screen);
  /// Kills remaining processes.
  ~LocalJob();
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  /// Handles events; due at deadline().
  void step(Clock::time_point now);
  /// When step() is due, even without an event.
  Clock::time_point deadline() const { return deadline_; }
  /// Sends all ranks this signal, and kills them after the grace period. Idempotent.
  void stop(int signal, Clock::time_point now) { stop(signal, now, options_.grace); }
  void stop(int signal, Clock::time_point now, std::chrono::milliseconds grace);
  /// Sends a signal to the processes of the ranks that handle it; returns the ranks without one.
  RankGroup pass_on(int signal);
  /// Kills all ranks now.
  void kill_now(Clock::time_point now);

  /// All ranks reported that they are connected; without a report, they count as healthy after
  /// 5 s.
  bool is_healthy() const { return healthy_; }
  /// The first failure by time, if a rank failed before all were stopped.
  const std::optional<Failure>& failure() const { return failure_; }
  /// No process of the ranks is left, and all their output was read.
  bool is_over() const { return over_; }
  /// All ranks have ended with this exit code.
  bool have_all_ended_with(int code) const;
  /// "ranks 0,1: in all_reduce #17 of group dp; rank 2: stopped", from their last heartbeats.
  std::string places() const;
  /// How the ranks other than `rank` ended.
  std::vector<RankEnd> ends_but(GlobalRank rank) const;

 private:
  void look_for_failure(Clock::time_point now);
  void look_at_health(Clock::time_point now);
  void look_for_silence(Clock::time_point now);
  bool look_at_processes(Clock::time_point now);
  void look_at_end(Clock::time_point now);
  RankProcess& first_to_fail();
  void send(int signal);
  void wake_at(Clock::time_point time) { deadline_ = std::min(deadline_, time); }

  const LaunchOptions& options_;
  int64_t node_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point deadline_ = started_;
  Clock::time_point awake_since_ = started_;  // When this launcher last was not run for a while.
  std::chrono::milliseconds silence_;         // Without a heartbeat: a rank hangs.
  bool healthy_ = false;
  bool over_ = false;
  std::optional<Failure> failure_;
  std::optional<Clock::time_point> failed_at_;  // When the first failure was seen.
  bool stopping_ = false;                       // All ranks were sent a signal to stop.
  bool killed_ = false;
  Clock::time_point kill_at_;                 // The time of the kill.
  std::optional<Clock::time_point> gone_at_;  // When no process was left.
};

}  // namespace tessera

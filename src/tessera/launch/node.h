#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/launch/local_job.h"
#include "tessera/launch/temporary_folder.h"

namespace tessera TSR_API {

/// This node's part in the job: follows the coordinator's messages, reports events to it, and
/// prints messages for the user.
class Node {
 public:
  /// Sends a message to the coordinator.
  using Send = std::function<void(const Message&)>;
  Node(const LaunchOptions& options, std::string program, EventLoop& loop, Guard& guard,
       Screen& screen, Send send);

  /// Handles start, stop and end.
  void handle(const Message& message, Clock::time_point now);
  /// Handles events of the ranks; due at deadline().
  void step(Clock::time_point now);
  /// When step() is due, even without an event.
  Clock::time_point deadline() const;
  /// A signal to this launcher: ends the job; the second time, at once.
  void interrupt(int signal, Clock::time_point now);
  /// A non-terminating signal to this launcher, for the ranks that handle it.
  void pass_on(int signal);
  /// The launcher's exit code, once the job is over.
  std::optional<int> exit_code() const { return exit_code_; }
  /// Whether interrupt() was called.
  bool is_interrupted() const { return interrupted_.has_value(); }

 private:
  void start(const StartMessage& start);
  void report();
  void show(const Failure& failure, const Verdict& verdict);
  std::chrono::milliseconds interrupt_grace() const {
    return options_.interrupt_grace.value_or(options_.grace);
  }
  bool is_idle() const { return !job_ || job_->is_over(); }
  std::string attempt_folder() const;

  const LaunchOptions& options_;
  std::string program_;
  EventLoop& loop_;
  Guard& guard_;
  Screen& screen_;
  Send send_;
  TemporaryFolder temporary_;
  StartMessage start_;
  std::unique_ptr<LocalJob> job_;
  // What was sent and received in this round.
  bool reported_health_ = false;
  bool reported_failure_ = false;
  bool reported_done_ = false;
  bool reported_stopped_ = false;
  std::optional<StopMessage> stop_;
  std::optional<EndMessage> end_;
  std::optional<Failure> interrupted_;
  Clock::time_point leave_at_ =
      Clock::time_point::max();  // An interrupted launcher does not wait forever.
  std::optional<Failure> shown_;
  std::optional<int> exit_code_;
};

}  // namespace tessera

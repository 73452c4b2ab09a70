#include "tessera/launch/node.h"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tessera/base/machine.h"
#include "tessera/base/text.h"
#include "tessera/launch/worker.h"
#include "tessera/topology/rank_text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAnswerTimeout{3};  // For the answer to an interrupted node.

}  // namespace

Node::Node(const LaunchOptions& options, std::string program, EventLoop& loop, Guard& guard,
           Screen& screen, Send send)
    : options_(options),
      program_(std::move(program)),
      loop_(loop),
      guard_(guard),
      screen_(screen),
      send_(std::move(send)) {}

void Node::handle(const Message& message, Clock::time_point now) {
  if (const auto* order = std::get_if<StartMessage>(&message)) {
    start(*order);
  } else if (const auto* stop = std::get_if<StopMessage>(&message)) {
    const Failure::Kind why = stop->failure.kind;
    if (job_ && why == Failure::Kind::kInterrupted) {
      job_->stop(static_cast<int>(stop->failure.signal), now, interrupt_grace());
    } else if (job_ && why == Failure::Kind::kResize) {
      job_->stop(SIGTERM, now, interrupt_grace());  // The ranks save their state.
    } else if (job_) {
      job_->stop(SIGTERM, now);
    }
    stop_ = *stop;
  } else if (const auto* end = std::get_if<EndMessage>(&message)) {
    if (job_) job_->stop(SIGTERM, now);
    end_ = *end;
  }
}

void Node::start(const StartMessage& start) {
  start_ = start;
  reported_health_ = reported_failure_ = reported_done_ = reported_stopped_ = false;
  stop_.reset();
  job_.reset();
  fs::create_directories(attempt_folder());
  job_ = std::make_unique<LocalJob>(options_, start, program_, attempt_folder(), loop_, guard_,
                                    screen_);
}

std::string Node::attempt_folder() const {
  const fs::path root =
      options_.log_dir.empty() ? fs::path(temporary_.path()) : fs::absolute(options_.log_dir);
  return root / concat("attempt_", start_.restart);
}

void Node::step(Clock::time_point now) {
  if (job_) job_->step(now);
  report();
  if (!is_idle() || (!end_ && now < leave_at_)) return;
  const std::optional<Failure> failure = end_ ? end_->failure : interrupted_;
  if (failure && failure != shown_) show(*failure, {.healthy = reported_health_});
  exit_code_ = failure ? static_cast<int>(failure->code()) : 0;
}

void Node::report() {
  if (!job_) return;
  const auto once = [&](bool& told, const Message& message) {
    if (!std::exchange(told, true)) send_(message);
  };
  if (job_->is_healthy()) once(reported_health_, HealthyMessage{start_.round});
  const std::optional<Failure> failure = job_->failure();
  if (failure) once(reported_failure_, FailedMessage{start_.round, *failure});
  if (!job_->is_over()) return;
  if (stop_) {
    if (!reported_stopped_) show(stop_->failure, stop_->verdict);
    once(reported_stopped_,
         StoppedMessage{start_.round, job_->have_all_ended_with(kResumeExitCode)});
  } else if (!failure && !end_ && !interrupted_) {
    once(reported_done_, DoneMessage{start_.round});
  }
}

Clock::time_point Node::deadline() const {
  return std::min(leave_at_, job_ ? job_->deadline() : Clock::time_point::max());
}

void Node::interrupt(int signal, Clock::time_point now) {
  const std::string name = signal_name(signal);
  if (interrupted_) {
    if (job_) job_->kill_now(now);
    leave_at_ = now;
    return;
  }
  interrupted_ = Failure{.kind = Failure::Kind::kInterrupted,
                         .node = start_.node,
                         .host = host_name(),
                         .signal = signal};
  if (!is_idle()) screen_.say(concat(name, ": stopping the ranks; send it again to kill them"));
  if (job_) job_->stop(signal, now, interrupt_grace());
  leave_at_ = now + kAnswerTimeout + (is_idle() ? std::chrono::milliseconds{0} : interrupt_grace());
  send_(FailedMessage{start_.round, *interrupted_});
}

void Node::pass_on(int signal) {
  if (!is_idle()) screen_.say(concat(signal_name(signal), ": ", job_->places()));
  const RankGroup without_handler = job_ ? job_->pass_on(signal) : RankGroup{};
  if (without_handler.empty()) return;
  const bool one = without_handler.size() == 1;
  screen_.say(concat(one ? "rank " : "ranks ", short_list(without_handler), one ? " does" : " do",
                     " not handle ", signal_name(signal),
                     " and would end, so it is not passed on"));
}

void Node::show(const Failure& failure, const Verdict& verdict) {
  shown_ = failure;
  if (failure.code() == kResumeExitCode) {
    return screen_.say(concat("the ranks have saved their state and ended with exit code ",
                              kResumeExitCode, "; run the same command again to resume"));
  }
  if (failure.kind == Failure::Kind::kResize) {
    return screen_.say(concat("node ", failure.node, " on host ", failure.host,
                              " has joined: restarting all ranks with it"));
  }
  if (failure.kind == Failure::Kind::kInterrupted) {
    const bool here = interrupted_.has_value();
    return screen_.say(concat(
        signal_name(failure.signal),
        here ? "" : concat(" at the launcher of node ", failure.node, " on host ", failure.host),
        ": all ranks of this node have stopped"));
  }
  FailureBlock block{
      .failure = failure, .verdict = verdict, .nnodes = options_.nnodes, .node = start_.node};
  if (job_) block.others = job_->ends_but(failure.is_of_rank() ? failure.rank : GlobalRank{-1});
  if (!options_.log_dir.empty() && job_) block.logs = attempt_folder();
  block.grace_seconds = static_cast<double>(options_.grace.count()) / 1000;
  screen_.show(block.to_string(options_.width, options_.err_color));
}

}  // namespace tessera

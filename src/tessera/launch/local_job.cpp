#include "tessera/launch/local_job.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "tessera/base/environment.h"
#include "tessera/base/machine.h"
#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/topology/rank_text.h"

namespace tessera {
namespace {

// Failures this close together may be seen in another order than they happened.
constexpr std::chrono::milliseconds kSettle{100};
constexpr std::chrono::seconds kHealthyAfter{5};
constexpr std::chrono::seconds kDeathTime{5};  // For the kernel to remove killed processes.
constexpr std::chrono::seconds kDrainTime{1};  // A daemon may hold a stream forever.
constexpr std::chrono::seconds kLate{1};       // This launcher did not run: heartbeats may wait.
constexpr int kPatience = 4;                   // A rank that is ready to run may only lack a core.

using RankList = std::vector<std::unique_ptr<RankProcess>>;

bool all(const RankList& ranks, bool (RankProcess::*what)() const) {
  return std::ranges::all_of(ranks, [&](const auto& rank) { return (*rank.*what)(); });
}

bool any(const RankList& ranks, bool (RankProcess::*what)() const) {
  return std::ranges::any_of(ranks, [&](const auto& rank) { return (*rank.*what)(); });
}

// What a rank does that sends no heartbeats.
std::string condition_of(char state) {
  switch (state) {
    case 'T':
      return "it is stopped (SIGSTOP)";
    case 't':
      return "a debugger has stopped it";
    case 'D':
      return "it waits for a disk or a device";
    case 'R':
      return "it gets no processor time";
    default:
      return "it does not run (is its host suspended, or its cgroup frozen?)";
  }
}

Failure hang_of(const RankProcess& rank, Clock::duration silent) {
  const double seconds = std::chrono::duration<double>(silent).count();
  const std::string& place = rank.heartbeats().place();
  return {
      .kind = Failure::Kind::kHang,
      .rank = rank.rank(),
      .message = concat("no heartbeat for ", fixed(seconds, 1), " s: ", condition_of(rank.state()),
                        "; it was last ", place.empty() ? "outside of operations" : place)};
}

std::string place_of(const RankProcess& rank) {
  if (rank.has_ended()) return "ended";
  if (rank.state() == 'T' || rank.state() == 't') return "stopped";
  if (!rank.heartbeats().last()) return "sends no heartbeats";
  const std::string& place = rank.heartbeats().place();
  return place.empty() ? "outside of operations" : place;
}

bool is_well(const std::unique_ptr<RankProcess>& rank) {
  return rank->has_reported_health() || (rank->has_ended() && !rank->has_failed());
}

}  // namespace

LocalJob::LocalJob(const LaunchOptions& options, const StartMessage& start,
                   const std::string& program, const std::string& folder, EventLoop& loop,
                   Guard& guard, Screen& screen)
    : options_(options),
      node_(start.node),
      silence_(silence_setting(process_environment()).value_or(kDefaultSilence)) {
  for (int64_t local = 0; local < options.nproc; ++local) {
    const GlobalRank rank = global_rank(options, start, local);
    const RankSpec spec{.rank = rank,
                        .program = program,
                        .command = options.command,
                        .environment = rank_environment(options, start, local, folder),
                        .log = options.log_dir.empty() ? "" : concat(folder, "/rank_", rank),
                        .foreground = rank == options.foreground,
                        .error_file = error_file_of(folder, rank)};
    ranks_.push_back(std::make_unique<RankProcess>(spec, loop, guard, screen));
  }
}

LocalJob::~LocalJob() {
  send(SIGKILL);
}

void LocalJob::step(Clock::time_point now) {
  if (deadline_ != Clock::time_point::max() && now > deadline_ + kLate) awake_since_ = now;
  deadline_ = Clock::time_point::max();
  if (over_) return;
  for (const auto& rank : ranks_) rank->step();
  look_at_health(now);
  look_for_failure(now);
  look_for_silence(now);
  look_at_end(now);
}

void LocalJob::look_at_health(Clock::time_point now) {
  if (healthy_ || stopping_) return;
  // If one rank reports its health, the program can, and all ranks will.
  const bool silent = !any(ranks_, &RankProcess::has_reported_health);
  healthy_ = std::ranges::all_of(ranks_, is_well) ||
             (silent && now >= started_ + kHealthyAfter && !any(ranks_, &RankProcess::has_failed));
  if (!healthy_ && silent) wake_at(std::max(now, started_ + kHealthyAfter));
}

void LocalJob::look_for_failure(Clock::time_point now) {
  if (failure_ || stopping_ || !any(ranks_, &RankProcess::has_failed)) return;
  const Clock::time_point first = failed_at_.value_or(now);
  failed_at_ = first;
  if (now < first + kSettle && !all(ranks_, &RankProcess::has_ended)) {
    return wake_at(first + kSettle);
  }
  Failure failure = first_to_fail().failure();
  failure.node = node_;
  failure.host = host_name();
  failure_ = std::move(failure);
}

// A stopped process does not end by SIGTERM, so a silent rank is killed at once.
void LocalJob::look_for_silence(Clock::time_point now) {
  if (failure_ || stopping_) return;
  for (const auto& rank : ranks_) {
    const auto last = rank->heartbeats().last();
    if (!last || rank->has_ended()) continue;
    const Clock::time_point since = std::max(*last, awake_since_);
    if (now < since + silence_) {
      wake_at(since + silence_);
    } else if (rank->state() == 'R' && now < since + kPatience * silence_) {
      wake_at(now + silence_ / 2);
    } else {
      failure_ = hang_of(*rank, now - *last);
      failure_->node = node_;
      failure_->host = host_name();
      return rank->signal(SIGKILL);
    }
  }
}

RankProcess& LocalJob::first_to_fail() {
  const auto earlier = [](const auto& a, const auto& b) {
    if (a->has_failed() != b->has_failed()) return a->has_failed();
    return a->failed_at_us() < b->failed_at_us();
  };
  return **std::ranges::min_element(ranks_, earlier);
}

// Sends signals that are due, and returns whether no process is left.
bool LocalJob::look_at_processes(Clock::time_point now) {
  if (all(ranks_, &RankProcess::is_group_gone)) return true;
  if (all(ranks_, &RankProcess::has_ended)) stop(SIGTERM, now);  // Children of ranks are left.
  if (!stopping_) return false;
  if (now >= kill_at_) kill_now(now);
  const auto due = killed_ ? kill_at_ + kDeathTime : kill_at_;
  wake_at(due);
  return killed_ && now >= due;  // Stuck in the kernel.
}

void LocalJob::look_at_end(Clock::time_point now) {
  if (!look_at_processes(now)) return;
  // Waits for a slow reader of the screen, unless all ranks have to end.
  const bool patient = !stopping_ || now < kill_at_ + kDrainTime;
  const bool wait = patient && any(ranks_, &RankProcess::is_paused);
  const Clock::time_point since = wait ? now : gone_at_.value_or(now);
  gone_at_ = since;
  if (any(ranks_, &RankProcess::has_open_streams) && now < since + kDrainTime) {
    return wake_at(since + kDrainTime);
  }
  for (const auto& rank : ranks_) rank->close_streams();
  over_ = true;
}

void LocalJob::stop(int signal, Clock::time_point now, std::chrono::milliseconds grace) {
  if (std::exchange(stopping_, true)) return;
  send(signal);
  kill_at_ = now + grace;
  deadline_ = now;
}

RankGroup LocalJob::pass_on(int signal) {
  RankGroup deaf;
  for (const auto& rank : ranks_) {
    if (!rank->has_ended() && !rank->pass_on(signal)) deaf.push_back(rank->rank());
  }
  return deaf;
}

void LocalJob::kill_now(Clock::time_point now) {
  if (std::exchange(killed_, true)) return;
  stopping_ = true;
  kill_at_ = now;
  send(SIGKILL);
}

bool LocalJob::have_all_ended_with(int code) const {
  return std::ranges::all_of(ranks_, [&](const auto& rank) {
    const int status = rank->end().status;
    return rank->has_ended() && WIFEXITED(status) && WEXITSTATUS(status) == code;
  });
}

std::string LocalJob::places() const {
  std::map<std::string, RankGroup> places;
  for (const auto& rank : ranks_) places[place_of(*rank)].push_back(rank->rank());
  std::vector<std::string> texts;
  for (const auto& [place, ranks] : places) {
    texts.push_back(concat(ranks.size() == 1 ? "rank " : "ranks ", short_list(ranks), ": ", place));
  }
  return join(texts, "; ");
}

std::vector<RankEnd> LocalJob::ends_but(GlobalRank rank) const {
  std::vector<RankEnd> ends;
  for (const auto& one : ranks_) {
    if (one->rank() != rank) ends.push_back(one->end());
  }
  return ends;
}

void LocalJob::send(int signal) {
  for (const auto& rank : ranks_) {
    if (!rank->is_group_gone()) rank->signal(signal);
  }
}

}  // namespace tessera

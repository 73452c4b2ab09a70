#include "tessera/launch/local_job.h"

#include <algorithm>
#include <csignal>

#include "tessera/base/text.h"
#include "tessera/launch/socket.h"

namespace tessera {
namespace {

// Failures so near to each other may be seen in another order than they happened in.
constexpr std::chrono::milliseconds kSettle{100};
constexpr std::chrono::seconds kHealthyAfter{5};
constexpr std::chrono::seconds kDeathTime{5};  // For the kernel to take away what was killed.
constexpr std::chrono::seconds kDrainTime{1};  // A daemon may hold a stream for ever.

using RankList = std::vector<std::unique_ptr<RankProcess>>;

bool all(const RankList& ranks, bool (RankProcess::*what)() const) {
  return std::ranges::all_of(ranks, [&](const auto& rank) { return (*rank.*what)(); });
}

bool any(const RankList& ranks, bool (RankProcess::*what)() const) {
  return std::ranges::any_of(ranks, [&](const auto& rank) { return (*rank.*what)(); });
}

bool is_well(const std::unique_ptr<RankProcess>& rank) {
  return rank->has_told_health() || (rank->has_ended() && !rank->has_failed());
}

}  // namespace

LocalJob::LocalJob(const LaunchOptions& options, const StartMessage& start,
                   const std::string& program, const std::string& folder, EventLoop& loop,
                   Guard& guard, Screen& screen)
    : options_(options), node_(start.node) {
  for (int64_t local = 0; local < options.nproc; ++local) {
    const GlobalRank rank = global_rank(options, start, local);
    const RankSpec spec{.rank = rank,
                        .program = program,
                        .command = options.command,
                        .environment = rank_environment(options, start, local, folder),
                        .log = options.log_dir.empty() ? "" : concat(folder, "/rank_", rank),
                        .error_file = error_file_of(folder, rank)};
    ranks_.push_back(std::make_unique<RankProcess>(spec, loop, guard, screen));
  }
}

LocalJob::~LocalJob() {
  send(SIGKILL);
}

void LocalJob::step(Clock::time_point now) {
  deadline_ = Clock::time_point::max();
  if (over_) return;
  for (const auto& rank : ranks_) rank->step();
  look_at_health(now);
  look_for_failure(now);
  look_at_end(now);
}

void LocalJob::look_at_health(Clock::time_point now) {
  if (healthy_ || kill_at_) return;
  // Where one rank tells, the program knows how to, and all will.
  const bool silent = !any(ranks_, &RankProcess::has_told_health);
  healthy_ = std::ranges::all_of(ranks_, is_well) ||
             (silent && now >= started_ + kHealthyAfter && !any(ranks_, &RankProcess::has_failed));
  if (!healthy_ && silent) wake_at(std::max(now, started_ + kHealthyAfter));
}

void LocalJob::look_for_failure(Clock::time_point now) {
  if (failure_ || kill_at_ || !any(ranks_, &RankProcess::has_failed)) return;
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

RankProcess& LocalJob::first_to_fail() {
  const auto earlier = [](const auto& a, const auto& b) {
    if (a->has_failed() != b->has_failed()) return a->has_failed();
    return a->failed_at_us() < b->failed_at_us();
  };
  return **std::ranges::min_element(ranks_, earlier);
}

void LocalJob::look_at_end(Clock::time_point now) {
  // Ranks may leave processes behind.
  const bool gone = all(ranks_, &RankProcess::is_group_gone);
  if (!gone && !kill_at_ && all(ranks_, &RankProcess::has_ended)) stop(SIGTERM, now);
  if (kill_at_ && now >= *kill_at_ && !killed_) kill_now(now);
  if (kill_at_ && !killed_) wake_at(*kill_at_);
  const bool lost = killed_ && now >= *kill_at_ + kDeathTime;  // In the kernel, out of reach.
  if (killed_ && !gone && !lost) wake_at(*kill_at_ + kDeathTime);
  if (!gone && !lost) return;
  // A reader of the screen that is slow is waited for, unless all have to end.
  const bool patient = !kill_at_ || now < *kill_at_ + kDrainTime;
  if (!gone_at_ || (patient && any(ranks_, &RankProcess::is_paused))) gone_at_ = now;
  if (any(ranks_, &RankProcess::has_open_streams) && now < *gone_at_ + kDrainTime) {
    return wake_at(*gone_at_ + kDrainTime);
  }
  for (const auto& rank : ranks_) rank->close_streams();
  over_ = true;
}

void LocalJob::stop(int signal, Clock::time_point now) {
  if (kill_at_) return;
  send(signal);
  kill_at_ = now + options_.grace;
  deadline_ = now;
}

void LocalJob::kill_now(Clock::time_point now) {
  if (killed_) return;
  killed_ = true;
  kill_at_ = now;
  send(SIGKILL);
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

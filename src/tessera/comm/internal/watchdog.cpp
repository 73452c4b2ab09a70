#include "tessera/comm/internal/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "tessera/base/machine.h"
#include "tessera/base/text.h"
#include "tessera/comm/internal/engine_error.h"
#include "tessera/comm/internal/store_bytes.h"
#include "tessera/launch/heartbeat_pipe.h"

namespace tessera::comm::detail {
namespace {

constexpr const char* kFailureKey = "failure";
constexpr size_t kMostWatched = 64;  // Ranks per scope; in larger groups the next neighbours.

std::string heartbeat_key(int64_t rank) {
  return concat("heartbeat/", rank);
}

double in_seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

WatchdogTimeouts WatchdogTimeouts::of(int64_t world_size, std::chrono::milliseconds silence,
                                      bool has_launcher) {
  const auto interval = store_heartbeat_interval(world_size, has_launcher);
  return {.interval = interval,
          .suspect = 4 * interval,
          .silence = std::max(silence, 4 * interval),
          .has_launcher = has_launcher};
}

// ---- For the threads that wait

Watchdog::Scope::Scope(Watchdog& watchdog, std::span<const GlobalRank> ranks,
                       std::function<void()> abort, std::optional<AwaitedCall> call)
    : watchdog_(watchdog), ranks_(ranks), abort_(std::move(abort)), call_(std::move(call)) {
  const std::lock_guard lock(watchdog_.mutex_);
  place_ = watchdog_.scopes_.insert(watchdog_.scopes_.end(), this);
}

Watchdog::Scope::~Scope() {
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.scopes_.erase(place_);
}

std::vector<int64_t> Watchdog::Scope::others() const {
  const GlobalRank self{watchdog_.launch_.rank};
  const auto at = static_cast<size_t>(std::ranges::find(ranks_, self) - ranks_.begin());
  std::vector<int64_t> others;
  for (size_t i = 1; i < std::min(ranks_.size(), kMostWatched + 1); ++i) {
    others.push_back(ranks_[(at + i) % ranks_.size()].value);
  }
  return others;
}

Watchdog::Clock::duration Watchdog::awake_since(Clock::time_point sign,
                                                Clock::time_point now) const {
  const auto stall = stall_detector_.last_stall();
  return now - (stall ? std::max(sign, stall->end) : sign);
}

std::optional<std::string> Watchdog::store_failure() const {
  const std::string holder = launch_.agent_store ? "the launcher" : "rank 0";
  const std::string whose = concat(holder, ", which holds the store at ", launch_.master_addr, ":",
                                   launch_.master_port, ",");
  const std::string advice = concat("; see the last output of ", holder);
  if (!store_error_.empty()) return concat(whose, " is gone", advice);
  const auto unanswered = awake_since(answered_, Clock::now());
  if (unanswered <= timeouts_.silence) return std::nullopt;
  return concat(whose, " has not answered for ", seconds_text(in_seconds(unanswered)), advice);
}

// If this rank was stopped, that explains more than what the others report.
std::optional<std::string> Watchdog::known_failure() const {
  const auto failure = failure_ ? failure_ : store_failure();
  const auto stall = stall_detector_.last_stall();
  const bool recent = stall && Clock::now() - stall->end < 2 * timeouts_.silence;
  if (!failure || !recent) return failure;
  return concat("this process did not run for ", seconds_text(in_seconds(stall->duration)),
                " (it was stopped, or its host was too busy); after that: ", *failure);
}

std::optional<std::string> Watchdog::failure() const {
  const std::lock_guard lock(mutex_);
  return known_failure();
}

std::optional<std::string> Watchdog::wait_for_failure() {
  std::unique_lock lock(mutex_);
  // Long enough for a lost rank to miss heartbeats, and to check all ranks twice.
  const auto deadline = Clock::now() + timeouts_.suspect + 3 * timeouts_.interval;
  suspicious_until_ = std::max(suspicious_until_, deadline);
  changed_.wait_until(lock, deadline, [&] { return failure_ || !store_error_.empty(); });
  return known_failure();
}

std::string Watchdog::report(const Scope& scope) {
  std::unique_lock lock(mutex_);
  // After this wait, all heartbeats in the table are newer than the call.
  changed_.wait_until(lock, Clock::now() + 3 * timeouts_.interval,
                      [&] { return !store_error_.empty(); });
  if (const auto trouble = store_failure()) return *trouble;
  const LatestOperation here = recorder_->latest_operation();
  std::vector<RankReport> reports{
      {.rank = launch_.rank,
       .heartbeat = Heartbeat{.inside = here.inside, .operation = here.operation},
       .silent_seconds = std::nullopt}};
  for (const int64_t rank : scope.others()) {
    const auto at = seen_.find(rank);
    if (at == seen_.end()) {
      reports.push_back({rank, std::nullopt, std::nullopt});
      continue;
    }
    const auto age = Clock::now() - at->second.since;
    const bool silent = age > timeouts_.suspect;
    reports.push_back(
        {rank, at->second.heartbeat, silent ? std::optional(in_seconds(age)) : std::nullopt});
  }
  std::ranges::sort(reports, {}, &RankReport::rank);
  return summarize(reports);
}

std::string Watchdog::publish(const std::string& failure) {
  std::unique_lock lock(mutex_);
  if (!failure_) to_publish_ = failure;
  changed_.notify_all();
  changed_.wait_for(lock, timeouts_.suspect, [&] { return failure_ || !store_error_.empty(); });
  return failure_.value_or(failure);
}

void Watchdog::note(const std::string& error) {
  const std::lock_guard lock(mutex_);
  if (noted_.empty()) noted_ = error;
}

void Watchdog::linger() const {
  if (launch_.rank == 0 && !launch_.agent_store)
    std::this_thread::sleep_for(2 * timeouts_.interval);
}

void Watchdog::stop(const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (!end_) end_ = reason.empty() || noted_.empty() ? reason : concat(reason, " after: ", noted_);
  changed_.notify_all();
  // If the store is gone, the thread may hang; then abandon it.
  changed_.wait_for(lock, timeouts_.suspect, [&] { return ended_; });
}

// ---- On the watchdog's thread

Watchdog::Watchdog(c10::intrusive_ptr<c10d::Store> store, const LaunchInfo& launch,
                   std::shared_ptr<Recorder> recorder, const WatchdogTimeouts& timeouts)
    : store_(std::move(store)),
      launch_(launch),
      recorder_(std::move(recorder)),
      timeouts_(timeouts),
      stall_detector_(timeouts.interval, timeouts.suspect) {}

std::shared_ptr<Watchdog> Watchdog::start(const c10::intrusive_ptr<c10d::Store>& store,
                                          const LaunchInfo& launch,
                                          const std::shared_ptr<Recorder>& recorder,
                                          const WatchdogTimeouts& timeouts) {
  const std::shared_ptr<Watchdog> watchdog(new Watchdog(store, launch, recorder, timeouts));
  watchdog->send_heartbeat("");
  std::thread([watchdog] { watchdog->run(); }).detach();
  return watchdog;
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    lock.unlock();
    try {
      tick();
      lock.lock();
    } catch (const std::exception& error) {
      lock.lock();
      store_error_ = error.what();
      break;
    }
    answered_ = Clock::now();
    changed_.notify_all();
    changed_.wait_for(lock, timeouts_.interval, [&] { return end_ || (to_publish_ && !failure_); });
  }
  if (store_error_.empty() && end_ && !end_->empty()) {
    const std::string reason = *end_;
    lock.unlock();
    try {
      send_heartbeat(reason);
    } catch (const std::exception&) {  // The others will notice the missing heartbeats.
    }
    lock.lock();
  }
  for (const Scope* scope : scopes_) {
    if (scope->abort_) scope->abort_();
  }
  ended_ = true;
  changed_.notify_all();
}

void Watchdog::tick() {
  const QuietEngine quiet;  // The waiting threads report the failure.
  send_heartbeat("");
  std::unique_lock lock(mutex_);
  const std::optional<std::string> wanted = failure_ ? std::nullopt : to_publish_;
  const std::vector<int64_t> ranks = failure_ ? std::vector<int64_t>{} : watched_ranks();
  lock.unlock();
  if (wanted) fail(announce(*wanted));
  // Under a launcher, only ranks that wait need to know.
  if (wanted || !ranks.empty() || !timeouts_.has_launcher) check_failure_key();
  check_heartbeats(ranks);
}

void Watchdog::send_heartbeat(const std::string& end) {
  const LatestOperation here = recorder_->latest_operation();
  const Heartbeat heartbeat{.count = ++num_heartbeats_,
                            .pid = getpid(),
                            .host = host_name(),
                            .inside = here.inside,
                            .operation = here.operation,
                            .end = end,
                            .calls_at_close = here.operation == kClosing
                                                  ? std::optional(recorder_->calls())
                                                  : std::nullopt};
  store_->set(heartbeat_key(launch_.rank), bytes_of(to_text(heartbeat)));
}

void Watchdog::check_failure_key() {
  if (store_->check({kFailureKey})) fail(text_of(store_->get(kFailureKey)));
}

void Watchdog::check_heartbeats(const std::vector<int64_t>& ranks) {
  std::vector<std::string> keys;
  std::vector<int64_t> there;
  for (const int64_t rank : ranks) {
    // get() would wait for a key that does not exist yet.
    const bool known = [&] {
      const std::lock_guard lock(mutex_);
      return seen_.contains(rank);
    }();
    if (!known && !store_->check({heartbeat_key(rank)})) continue;
    there.push_back(rank);
    keys.push_back(heartbeat_key(rank));
  }
  if (there.empty()) return;
  const auto asked = Clock::now();
  const auto values = store_->multiGet(keys);
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < there.size(); ++i) {
    const Heartbeat heartbeat = parse_heartbeat(text_of(values[i]));
    Seen& seen = seen_[there[i]];
    if (!seen.heartbeat || seen.heartbeat->count != heartbeat.count)
      seen = {heartbeat, Clock::now()};
  }
  auto loss = find_lost_rank(there, asked);
  if (!loss) loss = find_rank_that_left();
  lock.unlock();
  if (loss) fail(announce(*loss));
}

std::optional<std::string> Watchdog::find_lost_rank(const std::vector<int64_t>& ranks,
                                                    Clock::time_point now) const {
  const auto limit = now < suspicious_until_ ? timeouts_.suspect : timeouts_.silence;
  for (const int64_t rank : ranks) {
    const Seen& seen = seen_.at(rank);
    const Heartbeat& heartbeat = *seen.heartbeat;
    const std::string who = describe(rank, heartbeat);
    // The launcher must see its end before the end of the ranks that wait for it.
    if (!heartbeat.end.empty() && now - seen.since > 2 * timeouts_.interval) {
      return concat(who, " ", heartbeat.end);
    }
    if (awake_since(seen.since, now) <= limit) continue;
    const std::string last = heartbeat.operation.empty()
                                 ? "before its first operation"
                                 : concat(heartbeat.inside ? "in " : "after ", heartbeat.operation);
    return concat(who, " went missing: it has sent no heartbeat for ",
                  seconds_text(in_seconds(now - seen.since)), " and was last seen ", last);
  }
  return std::nullopt;
}

std::optional<std::string> Watchdog::find_rank_that_left() const {
  for (const Scope* scope : scopes_) {
    if (!scope->call_) continue;
    const auto& [communicator, number, what] = *scope->call_;
    for (const int64_t rank : scope->others()) {
      const auto at = seen_.find(rank);
      if (at == seen_.end() || !at->second.heartbeat->calls_at_close) continue;
      const auto& calls = *at->second.heartbeat->calls_at_close;
      const auto last = calls.find(communicator);
      if (last != calls.end() && last->second >= number) continue;
      return concat(describe(rank, *at->second.heartbeat), " is in close() and will not call ",
                    what, "; all ranks must call the same operations, e.g. for the same number of ",
                    "batches");
    }
  }
  return std::nullopt;
}

// The first announcement wins: consequences of a failure must not hide it.
std::string Watchdog::announce(const std::string& failure) {
  return text_of(store_->compareSet(kFailureKey, {}, bytes_of(failure)));
}

void Watchdog::fail(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  for (const Scope* scope : scopes_) {
    if (scope->abort_) scope->abort_();
  }
  changed_.notify_all();
}

std::vector<int64_t> Watchdog::watched_ranks() const {
  std::set<int64_t> ranks;
  for (const Scope* scope : scopes_) {
    const auto others = scope->others();
    ranks.insert(others.begin(), others.end());
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace tessera::comm::detail

#include "tessera/comm/internal/watch.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "tessera/base/machine.h"
#include "tessera/base/text.h"
#include "tessera/comm/internal/engine_error.h"

namespace tessera::comm::detail {
namespace {

constexpr const char* kFailureKey = "failure";
constexpr size_t kMostWatched =
    64;  // Ranks of one vigil; in larger groups each has its neighbours.

std::string beat_key(int64_t rank) {
  return concat("beat/", rank);
}

std::vector<uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

double in_seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Patience Patience::of(int64_t world_size, std::chrono::milliseconds silence) {
  const std::chrono::milliseconds beat{500 + world_size};
  return {.beat = beat, .suspect = 4 * beat, .silence = std::max(silence, 4 * beat)};
}

// ---- The side of those who wait

Watch::Vigil::Vigil(Watch& watch, std::span<const GlobalRank> ranks, std::function<void()> abort)
    : watch_(watch), ranks_(ranks), abort_(std::move(abort)) {
  const std::lock_guard lock(watch_.mutex_);
  place_ = watch_.vigils_.insert(watch_.vigils_.end(), this);
}

Watch::Vigil::~Vigil() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.vigils_.erase(place_);
}

std::vector<int64_t> Watch::Vigil::others() const {
  const GlobalRank self{watch_.launch_.rank};
  const auto at = static_cast<size_t>(std::ranges::find(ranks_, self) - ranks_.begin());
  std::vector<int64_t> others;
  for (size_t i = 1; i < std::min(ranks_.size(), kMostWatched + 1); ++i) {
    others.push_back(ranks_[(at + i) % ranks_.size()].value);
  }
  return others;
}

Watch::Clock::duration Watch::awake_since(Clock::time_point sign, Clock::time_point now) const {
  const auto stop = pulse_.last_stop();
  return now - (stop ? std::max(sign, stop->end) : sign);
}

std::optional<std::string> Watch::store_trouble() const {
  const std::string holder = launch_.agent_store ? "the launcher" : "rank 0";
  const std::string whose = concat(holder, ", which holds the store at ", launch_.master_addr, ":",
                                   launch_.master_port, ",");
  const std::string advice = concat("; look for what ", holder, " wrote last");
  if (!store_error_.empty()) return concat(whose, " is gone", advice);
  const auto unanswered = awake_since(answered_, Clock::now());
  if (unanswered <= patience_.silence) return std::nullopt;
  return concat(whose, " has not answered for ", seconds_text(in_seconds(unanswered)), advice);
}

// To a rank that was stopped, its own stop tells more than what the others did meanwhile.
std::optional<std::string> Watch::known_failure() const {
  const auto failure = failure_ ? failure_ : store_trouble();
  const auto stop = pulse_.last_stop();
  const bool recent = stop && Clock::now() - stop->end < 2 * patience_.silence;
  if (!failure || !recent) return failure;
  return concat("this process did not run for ", seconds_text(in_seconds(stop->duration)),
                " (it was stopped, or its host was too busy); after that: ", *failure);
}

std::optional<std::string> Watch::failure() const {
  const std::lock_guard lock(mutex_);
  return known_failure();
}

std::optional<std::string> Watch::verdict() {
  std::unique_lock lock(mutex_);
  // The ranks of the vigil are given the time to be silent, and to be looked at twice.
  const auto deadline = Clock::now() + patience_.suspect + 3 * patience_.beat;
  suspicious_until_ = std::max(suspicious_until_, deadline);
  changed_.wait_until(lock, deadline, [&] { return failure_ || !store_error_.empty(); });
  return known_failure();
}

std::string Watch::report(const Vigil& vigil) {
  std::unique_lock lock(mutex_);
  // What is in the table afterwards was sent after the call.
  changed_.wait_until(lock, Clock::now() + 3 * patience_.beat,
                      [&] { return !store_error_.empty(); });
  if (const auto trouble = store_trouble()) return *trouble;
  const Whereabouts here = recorder_->whereabouts();
  std::vector<RankReport> reports{{.rank = launch_.rank,
                                   .beat = Beat{.inside = here.inside, .operation = here.operation},
                                   .silent_seconds = std::nullopt}};
  for (const int64_t rank : vigil.others()) {
    const auto at = seen_.find(rank);
    if (at == seen_.end()) {
      reports.push_back({rank, std::nullopt, std::nullopt});
      continue;
    }
    const auto age = Clock::now() - at->second.since;
    const bool silent = age > patience_.suspect;
    reports.push_back(
        {rank, at->second.beat, silent ? std::optional(in_seconds(age)) : std::nullopt});
  }
  std::ranges::sort(reports, {}, &RankReport::rank);
  return where_they_are(reports);
}

std::string Watch::publish(const std::string& failure) {
  std::unique_lock lock(mutex_);
  if (!failure_) to_publish_ = failure;
  changed_.notify_all();
  changed_.wait_for(lock, patience_.suspect, [&] { return failure_ || !store_error_.empty(); });
  return failure_.value_or(failure);
}

void Watch::note(const std::string& error) {
  const std::lock_guard lock(mutex_);
  if (noted_.empty()) noted_ = error;
}

void Watch::linger() const {
  if (launch_.rank == 0 && !launch_.agent_store) std::this_thread::sleep_for(2 * patience_.beat);
}

void Watch::stop(const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (!end_) end_ = reason.empty() || noted_.empty() ? reason : concat(reason, " after: ", noted_);
  changed_.notify_all();
  // A thread that hangs in a store that is gone is left behind.
  changed_.wait_for(lock, patience_.suspect, [&] { return ended_; });
}

// ---- The side of the thread

Watch::Watch(c10::intrusive_ptr<c10d::Store> store, const LaunchInfo& launch,
             std::shared_ptr<Recorder> recorder, const Patience& patience)
    : store_(std::move(store)),
      launch_(launch),
      recorder_(std::move(recorder)),
      patience_(patience),
      pulse_(patience.beat, patience.suspect) {}

std::shared_ptr<Watch> Watch::start(const c10::intrusive_ptr<c10d::Store>& store,
                                    const LaunchInfo& launch,
                                    const std::shared_ptr<Recorder>& recorder,
                                    const Patience& patience) {
  const std::shared_ptr<Watch> watch(new Watch(store, launch, recorder, patience));
  watch->beat("");
  std::thread([watch] { watch->run(); }).detach();
  return watch;
}

void Watch::run() {
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
    changed_.wait_for(lock, patience_.beat, [&] { return end_ || (to_publish_ && !failure_); });
  }
  if (store_error_.empty() && end_ && !end_->empty()) {
    const std::string last_words = *end_;
    lock.unlock();
    try {
      beat(last_words);
    } catch (const std::exception&) {  // The others will notice the silence.
    }
    lock.lock();
  }
  for (const Vigil* vigil : vigils_) {
    if (vigil->abort_) vigil->abort_();
  }
  ended_ = true;
  changed_.notify_all();
}

void Watch::tick() {
  const QuietEngine quiet;  // Whoever waits tells what is lost.
  beat("");
  std::unique_lock lock(mutex_);
  const std::optional<std::string> wanted = failure_ ? std::nullopt : to_publish_;
  const std::vector<int64_t> ranks = failure_ ? std::vector<int64_t>{} : watched_ranks();
  lock.unlock();
  if (wanted) fail(announce(*wanted));
  look_for_failure();
  look_after(ranks);
}

void Watch::beat(const std::string& end) {
  const Whereabouts here = recorder_->whereabouts();
  const Beat beat{.count = ++num_beats_,
                  .pid = getpid(),
                  .host = host_name(),
                  .inside = here.inside,
                  .operation = here.operation,
                  .end = end};
  store_->set(beat_key(launch_.rank), bytes(to_text(beat)));
}

void Watch::look_for_failure() {
  if (store_->check({kFailureKey})) fail(text_of(store_->get(kFailureKey)));
}

void Watch::look_after(const std::vector<int64_t>& ranks) {
  std::vector<std::string> keys;
  std::vector<int64_t> there;
  for (const int64_t rank : ranks) {
    // Reading what is not there yet would wait for it.
    const bool known = [&] {
      const std::lock_guard lock(mutex_);
      return seen_.contains(rank);
    }();
    if (!known && !store_->check({beat_key(rank)})) continue;
    there.push_back(rank);
    keys.push_back(beat_key(rank));
  }
  if (there.empty()) return;
  const auto asked = Clock::now();
  const auto values = store_->multiGet(keys);
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < there.size(); ++i) {
    const Beat beat = parse_beat(text_of(values[i]));
    Seen& seen = seen_[there[i]];
    if (!seen.beat || seen.beat->count != beat.count) seen = {beat, Clock::now()};
  }
  const auto loss = loss_among(there, asked);
  lock.unlock();
  if (loss) fail(announce(*loss));
}

std::optional<std::string> Watch::loss_among(const std::vector<int64_t>& ranks,
                                             Clock::time_point now) const {
  const auto limit = now < suspicious_until_ ? patience_.suspect : patience_.silence;
  for (const int64_t rank : ranks) {
    const Seen& seen = seen_.at(rank);
    const Beat& beat = *seen.beat;
    const std::string who = describe(rank, beat);
    // Its launcher is to see its end before that of the ranks that miss it.
    if (!beat.end.empty() && now - seen.since > 2 * patience_.beat) {
      return concat(who, " ", beat.end);
    }
    if (awake_since(seen.since, now) <= limit) continue;
    const std::string last = beat.operation.empty()
                                 ? "before its first operation"
                                 : concat(beat.inside ? "in " : "after ", beat.operation);
    return concat(who, " went missing: it has given no sign of life for ",
                  seconds_text(in_seconds(now - seen.since)), " and was last seen ", last);
  }
  return std::nullopt;
}

// The first announcement stays: what follows from a failure must not hide it.
std::string Watch::announce(const std::string& failure) {
  return text_of(store_->compareSet(kFailureKey, {}, bytes(failure)));
}

void Watch::fail(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  for (const Vigil* vigil : vigils_) {
    if (vigil->abort_) vigil->abort_();
  }
  changed_.notify_all();
}

std::vector<int64_t> Watch::watched_ranks() const {
  std::set<int64_t> ranks;
  for (const Vigil* vigil : vigils_) {
    const auto others = vigil->others();
    ranks.insert(others.begin(), others.end());
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace tessera::comm::detail

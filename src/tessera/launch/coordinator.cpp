#include "tessera/launch/coordinator.h"

#include <algorithm>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/launch/worker.h"
#include "tessera/topology/rank_text.h"

namespace tessera {
namespace {

constexpr int64_t kBadUsage = 2;

std::string seconds(std::chrono::milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000, " s");
}

}  // namespace

Coordinator::Coordinator(const LaunchOptions& options, Send send, Master master,
                         Clock::time_point now)
    : options_(options),
      send_(std::move(send)),
      master_(std::move(master)),
      rendezvous_ends_(now + options.rendezvous_timeout) {}

void Coordinator::receive(Peer peer, const Message& message, Clock::time_point now) {
  if (std::holds_alternative<PingMessage>(message)) return;
  if (const auto* request = std::get_if<JoinMessage>(&message)) return join(peer, *request);
  const auto found = members_.find(peer);
  if (found == members_.end()) throw CommError("it sent a message before it joined");
  Member& member = found->second;
  if (const auto* healthy = std::get_if<HealthyMessage>(&message)) {
    if (healthy->round == round_) member.healthy = true;
    was_healthy_ = was_healthy_ || is_healthy();
    grow();
  } else if (const auto* done = std::get_if<DoneMessage>(&message)) {
    if (done->round == round_) member.done = true;
    if (phase_ == Phase::kRunning && all(&Member::done)) end(std::nullopt);
  } else if (const auto* stopped = std::get_if<StoppedMessage>(&message)) {
    if (stopped->round == round_) {
      member.stopped = true;
      member.resumable = stopped->resumable;
    }
    go_on_when_stopped(now);
  } else if (const auto* failed = std::get_if<FailedMessage>(&message)) {
    Failure failure = failed->failure;
    failure.node = std::max<int64_t>(0, member.node);
    if (failure.kind == Failure::Kind::kInterrupted) return interrupt(failure);
    if (failed->round == round_ && phase_ == Phase::kRunning) fail(all(&Member::healthy), failure);
  } else {
    throw CommError("it sent a message that only a coordinator may send");
  }
}

void Coordinator::join(Peer peer, const JoinMessage& join) {
  if (is_member(peer)) throw CommError("it joined twice");
  if (const auto refusal = objection(join)) {
    send_(peer, *refusal);
    // The sizes may as well be wrong on this side, so the job fails; a running job continues.
    const bool same_job = join.version == kProtocolVersion && join.id == options_.id;
    const bool same_sizes = join.nproc == options_.nproc && join.nnodes == options_.nnodes;
    if (same_job && !same_sizes && !started_) {
      end(Failure{.kind = Failure::Kind::kRendezvous,
                  .host = join.host,
                  .exit_code = kBadUsage,
                  .message = refusal->reason});
    }
    return;
  }
  members_[peer] = {.join = join, .node = join.node};
  send_(peer, WelcomeMessage{});
  if (phase_ == Phase::kRunning) return grow();
  if (is_full()) start_round();
}

std::optional<RefuseMessage> Coordinator::objection(const JoinMessage& join) const {
  if (join.version != kProtocolVersion) {
    return RefuseMessage{concat("it has version ", join.version,
                                " of the launchers' protocol, but node 0 has version ",
                                kProtocolVersion, "; use the same Tessera on all nodes")};
  }
  if (join.id != options_.id) {
    return RefuseMessage{concat("its --rdzv-id is '", join.id,
                                "', but this endpoint belongs to another job; give the same "
                                "--rdzv-id, or another --rdzv-endpoint")};
  }
  if (join.nproc != options_.nproc) {
    return RefuseMessage{concat("host ", join.host, " has --nproc ", join.nproc,
                                ", node 0 has --nproc ", options_.nproc,
                                "; give the same on all nodes")};
  }
  if (join.nnodes != options_.nnodes) {
    return RefuseMessage{concat("host ", join.host, " has --nnodes ", join.nnodes,
                                ", node 0 has --nnodes ", options_.nnodes,
                                "; give the same on all nodes")};
  }
  const bool open = phase_ == Phase::kRendezvous || phase_ == Phase::kRunning;
  if (!open || is_full()) {
    return RefuseMessage{concat("the job already has all its ", options_.nnodes, " nodes"),
                         /*later=*/true};
  }
  const auto same = [&](const auto& entry) {
    return join.node >= 0 && entry.second.node == join.node;
  };
  if (std::ranges::any_of(members_, same)) {
    return RefuseMessage{
        concat("another launcher has --node-rank ", join.node, "; give each node its own")};
  }
  return std::nullopt;
}

void Coordinator::lost(Peer peer, const std::string& why, Clock::time_point now) {
  const auto found = members_.find(peer);
  if (found == members_.end()) return;
  const Member member = found->second;
  const bool healthy = all(&Member::healthy);
  members_.erase(found);
  if (phase_ == Phase::kRunning && member.runs) {
    fail(healthy, {.kind = Failure::Kind::kNodeLost,
                   .node = member.node,
                   .host = member.join.host,
                   .message = why});
  }
  go_on_when_stopped(now);
}

void Coordinator::tick(Clock::time_point now) {
  if (phase_ != Phase::kRendezvous || now < rendezvous_ends_) return;
  if (options_.is_enough(static_cast<int64_t>(members_.size()))) return start_round();
  const auto limit = started_ ? options_.rejoin_timeout : options_.rendezvous_timeout;
  Failure failure = started_ ? failure_ : Failure{.kind = Failure::Kind::kRendezvous};
  failure.message = concat(failure.message, failure.message.empty() ? "" : "; ", members_.size(),
                           " of ", options_.nnodes, " nodes joined within ", seconds(limit),
                           "; missing: ", missing_nodes());
  end(failure);
}

std::optional<Clock::time_point> Coordinator::deadline() const {
  return phase_ == Phase::kRendezvous ? std::optional(rendezvous_ends_) : std::nullopt;
}

bool Coordinator::is_healthy() const {
  return phase_ == Phase::kRunning && all(&Member::healthy);
}

// Nodes without a given number get the free ones, in the order of arrival.
void Coordinator::number_nodes() {
  std::set<int64_t> taken;
  for (const auto& [peer, member] : members_) taken.insert(member.node);
  int64_t next = 0;
  for (auto& [peer, member] : members_) {
    if (member.node >= 0) continue;
    while (taken.contains(next)) ++next;
    member.node = next++;
  }
}

void Coordinator::start_round() {
  number_nodes();
  const MasterAddress master = master_();
  phase_ = Phase::kRunning;
  started_ = true;
  std::map<int64_t, int64_t> places;  // By node; the nodes of a round have no gaps.
  for (const auto& [peer, member] : members_) places[member.node] = 0;
  for (int64_t next = 0; auto& [node, place] : places) place = next++;
  for (auto& [peer, member] : members_) {
    member.healthy = member.done = member.stopped = member.resumable = false;
    member.runs = true;
    send_(peer, StartMessage{.round = round_,
                             .restart = round_,
                             .max_restarts = options_.max_restarts,
                             .node = places.at(member.node),
                             .nnodes = static_cast<int64_t>(members_.size()),
                             .master_addr = master.address,
                             .master_port = master.port,
                             .secret = master.secret});
  }
}

void Coordinator::fail(bool healthy, const Failure& failure) {
  failure_ = failure;
  const bool asks_for_end =
      failure.kind == Failure::Kind::kRank && failure.code() == kResumeExitCode;
  const bool again =
      (healthy || was_healthy_) && !asks_for_end && restarts_ < options_.max_restarts;
  if (again) ++restarts_;
  verdict_ = {.restart = again ? restarts_ : 0,
              .max_restarts = options_.max_restarts,
              .healthy = healthy || was_healthy_};
  phase_ = Phase::kStopping;
  send_all(StopMessage{round_, failure_, verdict_});
}

// If a node waits to join, stops the round so that the next one has it. The ranks save their state.
void Coordinator::grow() {
  const Member* const joined = newcomer();
  if (joined == nullptr || !is_healthy()) return;
  failure_ = {.kind = Failure::Kind::kResize, .node = joined->node, .host = joined->join.host};
  failure_.node = std::max<int64_t>(0, failure_.node);
  verdict_ = {.restart = round_ + 1, .max_restarts = options_.max_restarts};
  phase_ = Phase::kStopping;
  send_all(StopMessage{round_, failure_, verdict_});
}

// Ends the current round, in whatever phase it is.
void Coordinator::interrupt(const Failure& failure) {
  if (phase_ == Phase::kOver) return;
  failure_ = failure;
  verdict_ = {.restart = 0, .max_restarts = options_.max_restarts};
  if (phase_ == Phase::kRendezvous) return end(failure_);
  if (phase_ == Phase::kRunning) send_all(StopMessage{round_, failure_, verdict_});
  phase_ = Phase::kStopping;
}

void Coordinator::go_on_when_stopped(Clock::time_point now) {
  if (phase_ != Phase::kStopping || !all(&Member::stopped)) return;
  if (verdict_.restart == 0) return end(resumable_or(failure_));
  ++round_;
  phase_ = Phase::kRendezvous;
  rendezvous_ends_ = now + options_.rejoin_timeout;
  const bool grown = failure_.kind == Failure::Kind::kResize &&
                     options_.is_enough(static_cast<int64_t>(members_.size()));
  if (is_full() || grown) start_round();
}

// If all ranks have saved their state after a signal, the exit code says so.
Failure Coordinator::resumable_or(Failure failure) const {
  if (failure.kind != Failure::Kind::kInterrupted || !all(&Member::resumable)) return failure;
  failure.signal = 0;
  failure.exit_code = kResumeExitCode;
  return failure;
}

void Coordinator::end(const std::optional<Failure>& failure) {
  send_all(EndMessage{failure});
  phase_ = Phase::kOver;
}

void Coordinator::send_all(const Message& message) {
  for (const auto& [peer, member] : members_) send_(peer, message);
}

bool Coordinator::all(bool Member::*what) const {
  return std::ranges::all_of(
      members_, [&](const auto& entry) { return !entry.second.runs || entry.second.*what; });
}

const Coordinator::Member* Coordinator::newcomer() const {
  for (const auto& [peer, member] : members_) {
    if (!member.runs) return &member;
  }
  return nullptr;
}

bool Coordinator::is_full() const {
  return static_cast<int64_t>(members_.size()) == options_.nnodes;
}

std::string Coordinator::missing_nodes() const {
  std::set<int64_t> present;
  for (const auto& [peer, member] : members_) present.insert(member.node);
  if (present.contains(-1))
    return concat(options_.nnodes - static_cast<int64_t>(members_.size()), " of them");
  RankGroup missing;
  for (int64_t node = 0; node < options_.nnodes; ++node) {
    if (!present.contains(node)) missing.push_back(GlobalRank{node});
  }
  return concat("node ", short_list(missing));
}

}  // namespace tessera

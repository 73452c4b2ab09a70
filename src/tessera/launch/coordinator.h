#pragma once

#include <functional>
#include <map>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"
#include "tessera/launch/options.h"
#include "tessera/launch/rendezvous_protocol.h"

namespace tessera TSR_API {

/// The store where the ranks of a new round connect.
struct MasterAddress {
  std::string address;      // MASTER_ADDR of the ranks.
  int64_t port = 0;         // MASTER_PORT of the ranks.
  std::string secret = "";  // The ranks need it to use the store; "": they need none.
};

/// Node 0's decisions about the whole job: who is a member, when a round starts, which failure was
/// first, whether to restart, and how all nodes end. It neither sends nor waits itself, so that
/// tests can try every order of events. Node 0's own ranks are a peer like the others.
class Coordinator {
 public:
  using Peer = int64_t;  // In the order of arrival; 0 is this launcher.
  /// Sends the message; must not call back.
  using Send = std::function<void(Peer, const Message&)>;
  /// Chooses the store of a round, before each start.
  using Master = std::function<MasterAddress()>;

  Coordinator(const LaunchOptions& options, Send send, Master master, Clock::time_point now);

  /// A message from this peer. CommError if the peer must not send it: drop the peer.
  void receive(Peer peer, const Message& message, Clock::time_point now);
  /// The peer's connection has ended, for this reason.
  void lost(Peer peer, const std::string& why, Clock::time_point now);
  /// Checks time-outs; due at deadline().
  void tick(Clock::time_point now);
  /// When tick() is due; nothing outside of a rendezvous.
  std::optional<Clock::time_point> deadline() const;

  /// Whether the peer was admitted and is not lost.
  bool is_member(Peer peer) const { return members_.contains(peer); }
  /// All peers have been sent how the job ended.
  bool is_over() const { return phase_ == Phase::kOver; }
  /// The master's port need not be reserved any more.
  bool is_healthy() const;

 private:
  enum class Phase { kRendezvous, kRunning, kStopping, kOver };
  struct Member {
    JoinMessage join;
    int64_t node = -1;
    bool runs = false;  // In the current round; otherwise it waits for the next one.
    bool healthy = false;
    bool done = false;
    bool stopped = false;
    bool resumable = false;
  };

  void join(Peer peer, const JoinMessage& join);
  std::optional<RefuseMessage> objection(const JoinMessage& join) const;
  void number_nodes();
  void start_round();
  void fail(bool healthy, const Failure& failure);
  void interrupt(const Failure& failure);
  void grow();
  void go_on_when_stopped(Clock::time_point now);
  Failure resumable_or(Failure failure) const;
  void end(const std::optional<Failure>& failure);
  void send_all(const Message& message);
  /// Whether this holds for all nodes of the round.
  bool all(bool Member::*what) const;
  bool is_full() const;
  const Member* newcomer() const;
  std::string missing_nodes() const;

  LaunchOptions options_;
  Send send_;
  Master master_;
  Phase phase_ = Phase::kRendezvous;
  Clock::time_point rendezvous_ends_;
  std::map<Peer, Member> members_;
  int64_t round_ = 0;         // The current one; during a rendezvous, the next one.
  int64_t restarts_ = 0;      // After failures; a round that only adds nodes does not count.
  bool started_ = false;      // A round was started: nodes that join now rejoin.
  bool was_healthy_ = false;  // A round was healthy: the program works.
  Failure failure_;           // What ended the current round.
  Verdict verdict_;
};

}  // namespace tessera

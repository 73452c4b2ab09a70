#pragma once

#include <functional>
#include <map>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"
#include "tessera/launch/options.h"
#include "tessera/launch/rendezvous_protocol.h"

namespace tessera TSR_API {

/// Where the ranks of a new round meet, and what they must know to be let in.
struct MasterPlace {
  std::string address;
  int64_t port = 0;
  std::string secret = "";
};

/// Node 0's decisions about the whole job: who is in it, when a round starts, which failure was the
/// first, whether there is a restart, and how all end. It neither sends nor waits by itself, so
/// that every order of events can be tried. Node 0's own ranks are a peer like the others.
class Coordinator {
 public:
  using Peer = int64_t;  // In the order of arrival; 0 is this launcher.
  /// Takes the message along; it must not call back.
  using Send = std::function<void(Peer, const Message&)>;
  using Master = std::function<MasterPlace()>;

  Coordinator(const LaunchOptions& options, Send send, Master master, Clock::time_point now);

  /// A message that this peer sent. One that it must not send raises CommError: drop the peer.
  void receive(Peer peer, const Message& message, Clock::time_point now);
  /// The peer's connection is gone, for this reason.
  void lost(Peer peer, const std::string& why, Clock::time_point now);
  /// Looks at the time; due at deadline().
  void tick(Clock::time_point now);
  std::optional<Clock::time_point> deadline() const;

  bool is_member(Peer peer) const { return members_.contains(peer); }
  /// All were told how the job ended.
  bool is_over() const { return phase_ == Phase::kOver; }
  /// Nobody needs the reservation of the master's port any more.
  bool is_healthy() const;

 private:
  enum class Phase { kMeeting, kRunning, kStopping, kOver };
  struct Member {
    JoinMessage join;
    int64_t node = -1;
    bool healthy = false;
    bool done = false;
    bool stopped = false;
  };

  void join(Peer peer, const JoinMessage& join);
  std::optional<RefuseMessage> objection(const JoinMessage& join) const;
  void number_nodes();
  void start_round();
  void fail(bool healthy, const Failure& failure);
  void interrupt(const Failure& failure);
  void go_on_when_stopped(Clock::time_point now);
  void end(const std::optional<Failure>& failure);
  void send_all(const Message& message);
  bool all(bool Member::*what) const;
  bool is_full() const;
  std::string missing_nodes() const;

  LaunchOptions options_;
  Send send_;
  Master master_;
  Phase phase_ = Phase::kMeeting;
  Clock::time_point meeting_ends_;
  std::map<Peer, Member> members_;
  int64_t round_ = 0;     // The present one, or the next while they meet.
  bool started_ = false;  // A round was started: who comes now comes back.
  Failure failure_;       // What ended the present round.
  Verdict verdict_;
};

}  // namespace tessera

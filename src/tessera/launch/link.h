#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/random_name.h"
#include "tessera/launch/connection.h"
#include "tessera/launch/coordinator.h"
#include "tessera/launch/socket.h"

namespace tessera TSR_API {

/// A node's connection to the coordinator.
class NodeLink {
 public:
  NodeLink() = default;
  virtual ~NodeLink() = default;
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  /// Sends a message to the coordinator.
  virtual void send(const Message& message, Clock::time_point now) = 0;
  /// Handles received messages and time-outs; due at deadline().
  virtual void step(Clock::time_point now) = 0;
  /// When step() is due, even without an event.
  virtual Clock::time_point deadline() const = 0;
  /// The job is over: waits a short time so that the others receive it.
  virtual void finish() = 0;
  /// The coordinator's messages to this node: start, stop and end.
  std::vector<Message> take();

 protected:
  /// Adds a message for take().
  void deliver(const Message& message) { inbox_.push_back(message); }
  /// Whether take() would return any.
  bool has_messages() const { return !inbox_.empty(); }

 private:
  std::vector<Message> inbox_;
};

/// For node 0 and for jobs of one node: runs the coordinator and listens for the other nodes.
class CoordinatorLink : public NodeLink {
 public:
  /// `listener` is closed if there are no other nodes.
  CoordinatorLink(const LaunchOptions& options, EventLoop& loop, Descriptor listener);
  ~CoordinatorLink() override;
  void send(const Message& message, Clock::time_point now) override;
  void step(Clock::time_point now) override;
  Clock::time_point deadline() const override;
  void finish() override;

 private:
  void accept();
  void watch_members();
  void on_members();
  void step(Coordinator::Peer peer, Clock::time_point now);
  void check_all(Clock::time_point now);
  void receive(Coordinator::Peer peer, Connection& connection, Clock::time_point now);
  bool should_close(Coordinator::Peer peer, const Connection& connection,
                    Clock::time_point now) const;
  MasterAddress new_master();

  const LaunchOptions& options_;
  EventLoop& loop_;
  EventLoop members_loop_;  // Of the connections; watched by `loop_`.
  std::optional<Clock::time_point> watch_again_;
  Descriptor listener_;
  std::map<Coordinator::Peer, std::unique_ptr<Connection>> connections_;
  std::vector<Coordinator::Peer> active_;  // Have received something since the last step.
  Clock::time_point next_check_ = Clock::now();
  Coordinator::Peer next_peer_ = 1;
  std::optional<PortReservation> reservation_;
  const std::string secret_ = random_name();
  int64_t last_port_ = 0;  // A restart uses another one: old connections may linger.
  Coordinator coordinator_;
};

/// For the other nodes: joins at node 0 and receives its messages.
class MemberLink : public NodeLink {
 public:
  MemberLink(const LaunchOptions& options, EventLoop& loop);
  void send(const Message& message, Clock::time_point now) override;
  void step(Clock::time_point now) override;
  Clock::time_point deadline() const override;
  void finish() override;

 private:
  void receive(const Message& message, Clock::time_point now);
  void try_again(const std::string& why, Clock::time_point now);
  void give_up(Failure failure);

  const LaunchOptions& options_;
  EventLoop& loop_;
  std::unique_ptr<Connection> connection_;
  bool welcome_ = false;
  bool over_ = false;
  std::string last_reason_ = "no answer";
  Clock::time_point rendezvous_ends_;
  Clock::time_point next_try_;
};

/// A CoordinatorLink if this host has the endpoint's address and nobody listens there yet.
std::unique_ptr<NodeLink> make_link(const LaunchOptions& options, EventLoop& loop);

}  // namespace tessera

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"
#include "tessera/launch/rendezvous_protocol.h"

namespace tessera TSR_API {

/// Messages over a socket. Never blocks: the caller takes received messages and asks whether the
/// connection has ended.
class Connection {
 public:
  /// How often the peers of a connection show that they are alive.
  struct Pace {
    std::chrono::seconds ping;     // Between two pings to the peer.
    std::chrono::seconds silence;  // A peer that is silent for this long is lost.
  };
  /// For another node's connection to node 0.
  static constexpr Pace kOfMember{.ping = std::chrono::seconds(3),
                                  .silence = std::chrono::seconds(15)};
  /// For node 0's connections: one to each node, so it sends fewer pings.
  static constexpr Pace kOfCoordinator{.ping = std::chrono::seconds(6),
                                       .silence = std::chrono::seconds(8)};

  /// `notify` is called after something was received, and when the connection ends.
  Connection(EventLoop& loop, Descriptor socket, const Pace& pace,
             std::function<void()> notify = {});
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Buffers what the socket does not accept; more than 1 MiB ends the connection. Does nothing
  /// after finish(), or if the connection has ended.
  void send(const Message& message);
  /// The messages since the last call.
  std::vector<Message> take();
  /// Sends pings, and ends the connection after too long a silence.
  void step(Clock::time_point now);
  /// Sends nothing more; the peer sees the end after the last message.
  void finish();
  /// Ends the connection at once, for this reason.
  void break_off(const std::string& why);
  /// Why the connection ended; nothing while it works.
  const std::optional<std::string>& ended() const { return ended_; }
  /// When this object was made.
  Clock::time_point since() const { return since_; }
  /// When step() is due; now if take() or ended() has news.
  Clock::time_point deadline() const;

 private:
  void on_event();
  void read_some();
  void write_some();
  void take_lines();
  void watch();

  EventLoop& loop_;
  Descriptor socket_;
  Pace pace_;
  std::function<void()> notify_;
  std::string unsent_;
  std::string received_;  // An incomplete line.
  std::vector<Message> messages_;
  std::optional<std::string> ended_;
  Clock::time_point since_ = Clock::now();
  Clock::time_point heard_ = since_;
  Clock::time_point pinged_ = since_;
  bool finished_ = false;
};

}  // namespace tessera

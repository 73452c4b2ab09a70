#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"
#include "tessera/launch/rendezvous_protocol.h"

namespace tessera TSR_API {

/// Messages over a socket. Nothing blocks and nothing calls back: what came is taken, and whether
/// it has ended is asked.
class Connection {
 public:
  /// A launcher that is silent for so long is lost.
  static constexpr std::chrono::seconds kLongestSilence{10};

  Connection(EventLoop& loop, Descriptor socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(const Message& message);
  /// What has come since the last call.
  std::vector<Message> take();
  /// Pings, and notes a silence that is too long.
  void step(Clock::time_point now);
  /// Nothing more will be sent; the peer sees the end after the last message.
  void finish();
  /// Nothing more is sent or taken, for this reason.
  void break_off(const std::string& why);
  /// Why nothing more will come; nothing while it works.
  const std::optional<std::string>& ended() const { return ended_; }
  Clock::time_point since() const { return since_; }
  Clock::time_point deadline() const;

 private:
  void on_event();
  void read_some();
  void write_some();
  void take_lines();
  void watch();

  EventLoop& loop_;
  Descriptor socket_;
  std::string unsent_;
  std::string received_;  // The line whose end has not come.
  std::vector<Message> messages_;
  std::optional<std::string> ended_;
  Clock::time_point since_ = Clock::now();
  Clock::time_point heard_ = since_;
  Clock::time_point pinged_ = since_;
  bool finished_ = false;
};

}  // namespace tessera

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The address of a job's store, and who may use it.
///
/// On one host it is a Unix socket without a file: server and client ask the kernel for the user of
/// the other process, and only talk to processes of the same user. Between hosts it is a TCP port,
/// whose clients must know the job's secret.
class StoreAddress {
 public:
  /// A Unix socket, whose name contains the user and `port`.
  static StoreAddress on_this_host(int64_t port);
  /// A TCP port; `host` is a name or an IP address.
  static StoreAddress on_network(const std::string& host, int64_t port);

  /// Whether it is a Unix socket.
  bool is_on_this_host() const { return host_.empty(); }
  /// "127.0.0.1:29500" or "10.0.0.1:29500".
  std::string to_string() const;

  /// Listens there; ConfigError if that is not possible, e.g. because another process does.
  Descriptor listen() const;
  /// Connects to the store, which must start to listen within the time. CommError if it does not;
  /// ConfigError if it belongs to another user.
  Descriptor connect(std::chrono::steady_clock::time_point deadline) const;
  /// Whether the process at the other end may use the store.
  bool trusts(const Descriptor& connection) const;

 private:
  StoreAddress(std::string host, int64_t port) : host_(std::move(host)), port_(port) {}

  std::string host_;  // Empty: on this host.
  int64_t port_;
};

}  // namespace tessera

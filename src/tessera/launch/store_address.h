#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Where the store of a job is, and who may use it.
///
/// On one host it is a socket of the system without a file or a port: server and client ask the
/// system whose process is at the other end, and talk to processes of the same user alone. Between
/// hosts it is a TCP port, whose clients must know the job's secret.
class StoreAddress {
 public:
  static StoreAddress on_this_host(int64_t port);
  static StoreAddress on_network(const std::string& host, int64_t port);

  bool is_on_this_host() const { return host_.empty(); }
  /// "127.0.0.1:29500" or "10.0.0.1:29500".
  std::string to_string() const;

  /// Nothing else listens there. ConfigError where that is not possible.
  Descriptor listen() const;
  /// A connection to the store, which may begin to listen within the time. CommError if it does
  /// not; ConfigError if it belongs to another user.
  Descriptor connect(std::chrono::steady_clock::time_point deadline) const;
  /// Whether the process at the other end may talk to us.
  bool trusts(const Descriptor& connection) const;

 private:
  StoreAddress(std::string host, int64_t port) : host_(std::move(host)), port_(port) {}

  std::string host_;  // Empty: on this host.
  int64_t port_;
};

}  // namespace tessera

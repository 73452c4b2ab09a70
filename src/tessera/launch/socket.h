#pragma once

#include <optional>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/launch/options.h"

namespace tessera TSR_API {

/// Listens at that address only. Nothing, with errno set, if the address is not one of this host or
/// is in use; ConfigError if the host cannot be resolved.
std::optional<Descriptor> listen_at(const Endpoint& endpoint);

/// Starts a connection; whether it succeeds shows when the socket becomes writable.
Descriptor connect_to(const Endpoint& endpoint);

/// The next incoming connection, if there is one; does not block.
Descriptor accept_from(const Descriptor& listener);

/// Reserves a free port at the address without listening there, so that no other process gets it
/// before rank 0 listens.
class PortReservation {
 public:
  explicit PortReservation(const std::string& host);
  /// Chosen by the kernel; reserved while this object lives.
  int64_t port() const { return port_; }

 private:
  Descriptor socket_;
  int64_t port_ = 0;
};

}  // namespace tessera

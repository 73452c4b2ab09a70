#pragma once

#include <optional>
#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/launch/options.h"

namespace tessera TSR_API {

/// Listens at that address alone. Nothing, and errno says why, where the address is none of this
/// host or somebody listens there; ConfigError where the host has no address.
std::optional<Descriptor> listen_at(const Endpoint& endpoint);

/// A connection that is being made; whether it works out is seen when it can be written to.
Descriptor connect_to(const Endpoint& endpoint);

/// The next connection that came in, if there is one; it does not block.
Descriptor accept_from(const Descriptor& listener);

/// Holds a free port at the address without listening there, so that nobody else is given it before
/// rank 0 listens.
class PortReservation {
 public:
  explicit PortReservation(const std::string& host);
  int64_t port() const { return port_; }

 private:
  Descriptor socket_;
  int64_t port_ = 0;
};

}  // namespace tessera

#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Frees an AddressList.
struct AddressListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
/// What getaddrinfo found; frees itself.
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

/// The addresses of the host for sockets of that type, at least one. ConfigError with the advice
/// if the host cannot be resolved.
AddressList resolve(const std::string& host, int64_t port, int socket_type,
                    std::string_view advice);

}  // namespace tessera

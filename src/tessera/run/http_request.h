#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The parts of an HTTP request that a server of a few pages needs.
struct HttpRequest {
  std::string method;         // "GET".
  std::string path;           // "/data", as sent.
  std::string host;           // Of the header Host; "" without one.
  std::string if_none_match;  // Of that header.
};

/// The request of a complete head, up to and with the empty line. Nothing if it is malformed, e.g.
/// with control characters or two Hosts.
std::optional<HttpRequest> parse_http_request(std::string_view head);

}  // namespace tessera

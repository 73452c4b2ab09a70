// Any bytes as the head of an HTTP request: either refused, or a request without control
// characters.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/run/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view head(reinterpret_cast<const char*>(data), size);
  const auto request = tessera::parse_http_request(head);
  if (!request) return 0;
  if (!request->path.starts_with('/')) std::abort();
  for (const std::string& text :
       {request->method, request->path, request->host, request->if_none_match}) {
    if (std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; })) std::abort();
    if (head.find(text) == std::string_view::npos) std::abort();
  }
  return 0;
}

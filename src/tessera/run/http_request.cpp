#include "tessera/run/http_request.h"

#include <algorithm>
#include <vector>

#include "tessera/base/text.h"

namespace tessera {
namespace {

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

bool parse_first_line(std::string_view line, HttpRequest& request) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() != 3 || words[0].empty() || !words[1].starts_with('/')) return false;
  if (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") return false;
  request.method = words[0];
  request.path = words[1];
  return true;
}

bool parse_header(std::string_view line, HttpRequest& request) {
  const size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos || line[colon - 1] == ' ') return false;
  const std::string name = to_lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "if-none-match") request.if_none_match = value;
  if (name != "host") return true;
  const bool first = request.host.empty();
  request.host = value;
  return first && !value.empty();
}

}  // namespace

std::optional<HttpRequest> parse_http_request(std::string_view head) {
  constexpr std::string_view kLineEnd = "\r\n";
  HttpRequest request;
  bool is_first = true;
  while (!head.starts_with(kLineEnd)) {
    const size_t end = head.find(kLineEnd);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + kLineEnd.size());
    const bool fits = is_first ? parse_first_line(line, request) : parse_header(line, request);
    if (!fits || !is_plain(line)) return std::nullopt;
    is_first = false;
  }
  if (is_first) return std::nullopt;
  return request;
}

}  // namespace tessera

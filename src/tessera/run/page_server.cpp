#include "tessera/run/page_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/launch/socket.h"
#include "tessera/run/http_request.h"

namespace tessera {

struct PageServer::Connection {
  Descriptor socket;
  Clock::time_point opened = Clock::now();
  std::string head = {};    // What has been read.
  std::string answer = {};  // What is left to write; the connection is closed after it.
};

namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr size_t kMostHead = 8192;
constexpr size_t kMostConnections = 32;
constexpr std::chrono::seconds kLongest{10};
constexpr std::string_view kHeadEnd = "\r\n\r\n";

std::optional<Descriptor> listen_on(int64_t port) {
  return listen_at({.host = kLoopback, .port = port});
}

std::string response(std::string_view status, std::string_view more_headers, std::string_view type,
                     std::string_view content) {
  return concat("HTTP/1.1 ", status, "\r\nContent-Type: ", type,
                "\r\nContent-Length: ", content.size(),
                "\r\nConnection: close\r\nCache-Control: no-store\r\n"
                "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
                "Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n",
                more_headers, kHeadEnd.substr(2), content);
}

std::string refusal(std::string_view status) {
  return response(status, "", "text/plain", concat(status, "\n"));
}

}  // namespace

PageServer::PageServer(int64_t port, Source source) : source_(std::move(source)), port_(port) {
  constexpr int64_t kTried = 100;
  std::optional<Descriptor> listener;
  if (port != 0) {
    listener = listen_on(port);
  } else {
    for (port_ = kFirstPort; !listener && port_ < kFirstPort + kTried; ++port_) {
      listener = listen_on(port_);
    }
    --port_;
  }
  TSR_CHECK(listener, "port ", port_, " of 127.0.0.1 is in use; choose another one with --port");
  listener_ = std::move(*listener);
  loop_.watch(listener_.get(), POLLIN, [this] { take_connection(); });
}

PageServer::~PageServer() = default;

std::string PageServer::address() const {
  return concat("http://", kLoopback, ":", port_, "/");
}

void PageServer::serve(Clock::time_point deadline) {
  close_old();
  loop_.wait(deadline);
}

void PageServer::take_connection() {
  Descriptor socket = accept_from(listener_);
  if (!socket.is_open()) return;
  if (connections_.size() >= kMostConnections) close(connections_.front());  // The oldest.
  Connection& connection = connections_.emplace_back(std::move(socket));
  loop_.watch(connection.socket.get(), POLLIN, [this, &connection] { read_from(connection); });
}

void PageServer::read_from(Connection& connection) {
  std::array<char, 4096> bytes{};
  const ssize_t count = read(connection.socket.get(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close(connection);
  connection.head.append(bytes.data(), static_cast<size_t>(count));
  const size_t end = connection.head.find(kHeadEnd);
  const bool complete = end != std::string::npos;
  if (!complete && connection.head.size() <= kMostHead) return;
  connection.answer = complete && end <= kMostHead
                          ? answer(std::string_view(connection.head).substr(0, end + 4))
                          : refusal("431 Request Header Fields Too Large");
  loop_.watch(connection.socket.get(), POLLOUT, [this, &connection] { write_to(connection); });
}

void PageServer::write_to(Connection& connection) {
  const ssize_t count = send(connection.socket.get(), connection.answer.data(),
                             connection.answer.size(), MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count < 0) return close(connection);
  connection.answer.erase(0, static_cast<size_t>(count));
  if (!connection.answer.empty()) return;
  // Closing with unread bytes would reset the connection, and the client might lose the answer.
  shutdown(connection.socket.get(), SHUT_WR);
  connection.head.clear();
  loop_.watch(connection.socket.get(), POLLIN, [this, &connection] {
    std::array<char, 4096> rest{};
    const ssize_t read_now = read(connection.socket.get(), rest.data(), rest.size());
    if (read_now > 0 || (read_now < 0 && errno == EAGAIN)) return;
    close(connection);
  });
}

void PageServer::close(Connection& connection) {
  loop_.unwatch(connection.socket.get());
  connections_.remove_if([&](const Connection& other) { return &other == &connection; });
}

void PageServer::close_old() {
  const Clock::time_point now = Clock::now();
  for (auto at = connections_.begin(); at != connections_.end();) {
    Connection& connection = *at++;
    if (now - connection.opened > kLongest) close(connection);
  }
}

bool PageServer::is_own_host(std::string_view host) const {
  return host == concat(kLoopback, ":", port_) || host == concat("localhost:", port_);
}

std::string PageServer::answer(std::string_view head) const {
  const std::optional<HttpRequest> request = parse_http_request(head);
  if (!request) return refusal("400 Bad Request");
  if (!is_own_host(request->host)) return refusal("403 Forbidden");
  const bool with_content = request->method == "GET";
  if (!with_content && request->method != "HEAD") return refusal("405 Method Not Allowed");
  const std::optional<ServedPage> page = source_(request->path);
  if (!page) return refusal("404 Not Found");
  const std::string tag = page->version.empty() ? "" : concat("\"", page->version, "\"");
  const std::string version = tag.empty() ? "" : concat("ETag: ", tag, "\r\n");
  if (!tag.empty() && request->if_none_match == tag) {
    return response("304 Not Modified", version, page->type, "");
  }
  const std::string text = response("200 OK", version, page->type, page->content);
  return with_content ? text : text.substr(0, text.find(kHeadEnd) + kHeadEnd.size());
}

}  // namespace tessera

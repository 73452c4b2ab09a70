#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"

namespace tessera TSR_API {

struct HttpRequest;

/// What a path of a server stands for.
struct ServedPage {
  std::string type;     // "text/html; charset=utf-8".
  std::string content;  // Body of the response; not sent for HEAD.
  std::string version;  // Changes with the content; a client that has it gets no content. Or "".
};

/// Serves a few pages over HTTP on 127.0.0.1, for the browser of the same user. Single-threaded.
///
/// It answers GET and HEAD, and only requests whose Host is its own address: a page from elsewhere
/// whose name leads here (DNS rebinding) gets nothing. Paths are compared, never looked up in a
/// file system. It refuses heads of more than 8 KiB, keeps the 32 newest connections, and none for
/// longer than 10 seconds.
class PageServer {
 public:
  /// The page of a path; nothing if there is none.
  using Source = std::function<std::optional<ServedPage>(std::string_view path)>;

  /// Listens at this port; 0: the first free one from kFirstPort on. ConfigError if it is taken.
  PageServer(int64_t port, Source source);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  static constexpr int64_t kFirstPort = 8600;  // Where the search for a free port begins.
  /// Where it listens; never 0.
  int64_t port() const { return port_; }
  /// "http://127.0.0.1:8600/".
  std::string address() const;

  /// Answers what has arrived, and waits at most until the deadline for more.
  void serve(Clock::time_point deadline);

 private:
  struct Connection;
  void take_connection();
  void read_from(Connection& connection);
  void write_to(Connection& connection);
  void close(Connection& connection);
  void close_old();
  std::string answer(std::string_view head) const;
  bool is_own_host(std::string_view host) const;

  Source source_;
  int64_t port_ = 0;
  Descriptor listener_;
  EventLoop loop_;
  std::list<Connection> connections_;
};

}  // namespace tessera

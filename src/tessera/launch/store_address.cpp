#include "tessera/launch/store_address.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "tessera/base/address.h"
#include "tessera/base/check.h"

namespace tessera {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr int kFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  int family() const { return bytes.ss_family; }
};

// A name that starts with a zero byte is in no folder. Like ports of loopback, it is known within
// the network namespace. It contains the user, so jobs of other users have other names.
SocketAddress local_address(int64_t port) {
  const std::string name = concat("tessera-store-", geteuid(), "-", port);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::ranges::copy(name, address.sun_path + 1);
  SocketAddress result;
  std::memcpy(&result.bytes, &address, sizeof(address));
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

SocketAddress network_address(const std::string& host, int64_t port) {
  const AddressList list =
      resolve(host, port, SOCK_STREAM, "set MASTER_ADDR to the address of rank 0's host");
  SocketAddress result;
  std::memcpy(&result.bytes, list->ai_addr, list->ai_addrlen);
  result.length = list->ai_addrlen;
  return result;
}

// One attempt; a host that is gone does not even refuse.
bool connects(const Descriptor& socket, const SocketAddress& address, Time deadline) {
  if (::connect(socket.get(), address.get(), address.length) == 0) return true;
  if (errno != EINPROGRESS) return false;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd waiting{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t length = sizeof(error);
  return poll(&waiting, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000))) == 1 &&
         getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

void send_at_once(const Descriptor& socket, int family) {
  const int yes = 1;
  if (family != AF_UNIX) setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace

StoreAddress StoreAddress::on_this_host(int64_t port) {
  return {"", port};
}

StoreAddress StoreAddress::on_network(const std::string& host, int64_t port) {
  return {host, port};
}

std::string StoreAddress::to_string() const {
  return concat(is_on_this_host() ? "127.0.0.1" : host_, ":", port_);
}

Descriptor StoreAddress::listen() const {
  const SocketAddress address =
      is_on_this_host() ? local_address(port_) : network_address(host_, port_);
  Descriptor listener =
      checked(socket(address.family(), kFlags, 0), "cannot create a socket for the store");
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(listener.get(), address.get(), address.length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    throw ConfigError(concat("rank 0 cannot listen at ", to_string(), " (", std::strerror(errno),
                             "); choose a MASTER_PORT that no other job uses, and an address of "
                             "rank 0's host as MASTER_ADDR"));
  }
  return listener;
}

// Ranks of one host start within milliseconds of each other.
Descriptor StoreAddress::connect(Time deadline) const {
  constexpr std::chrono::milliseconds kLongestPause{50};
  const SocketAddress address =
      is_on_this_host() ? local_address(port_) : network_address(host_, port_);
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
    Descriptor socket =
        checked(::socket(address.family(), kFlags, 0), "cannot create a socket for the store");
    if (connects(socket, address, deadline)) {
      TSR_CHECK(trusts(socket), "the process that listens as the store of this job at ",
                to_string(), " belongs to another user; choose another MASTER_PORT");
      send_at_once(socket, address.family());
      return socket;
    }
    if (std::chrono::steady_clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  throw CommError(concat("nobody listens at ", to_string()));
}

bool StoreAddress::trusts(const Descriptor& connection) const {
  if (!is_on_this_host()) return true;  // The secret decides.
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

}  // namespace tessera

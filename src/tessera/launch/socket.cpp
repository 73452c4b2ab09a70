#include "tessera/launch/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tessera/base/address.h"
#include "tessera/base/check.h"

namespace tessera {
namespace {

AddressList resolve_node(const std::string& host, int64_t port) {
  return resolve(
      host, port, SOCK_STREAM,
      "give an address of node 0 that all nodes reach, e.g. --rdzv-endpoint 10.0.0.1:29400");
}

Descriptor make_socket(int family, int flags) {
  return checked(socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), "cannot create a socket");
}

void set_option(const Descriptor& descriptor, int level, int name) {
  const int yes = 1;
  setsockopt(descriptor.get(), level, name, &yes, sizeof(yes));
}

}  // namespace

std::optional<Descriptor> listen_at(const Endpoint& endpoint) {
  const AddressList list = resolve_node(endpoint.host, endpoint.port);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    Descriptor listener = make_socket(at->ai_family, SOCK_NONBLOCK);
    set_option(listener, SOL_SOCKET, SO_REUSEADDR);
    if (bind(listener.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        listen(listener.get(), SOMAXCONN) == 0) {
      return listener;
    }
  }
  return std::nullopt;
}

Descriptor connect_to(const Endpoint& endpoint) {
  const AddressList list = resolve_node(endpoint.host, endpoint.port);
  Descriptor descriptor = make_socket(list->ai_family, SOCK_NONBLOCK);
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY);
  // An immediate refusal shows like a later one: at the first write.
  [[maybe_unused]] const int result = connect(descriptor.get(), list->ai_addr, list->ai_addrlen);
  return descriptor;
}

Descriptor accept_from(const Descriptor& listener) {
  Descriptor accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted.is_open()) set_option(accepted, IPPROTO_TCP, TCP_NODELAY);
  return accepted;
}

PortReservation::PortReservation(const std::string& host) {
  const AddressList list = resolve_node(host, 0);
  socket_ = make_socket(list->ai_family, 0);
  set_option(socket_, SOL_SOCKET, SO_REUSEADDR);
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (bind(socket_.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw_system_error(concat("no free port at ", host, " for rank 0; give --master-port"));
  }
  // The port is at the same offset in both kinds of addresses.
  port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace tessera

#include "tessera/comm/internal/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tessera/base/check.h"
#include "tessera/base/descriptor.h"
#include "tessera/comm/internal/engine_error.h"
#include "tessera/launch/address.h"

namespace tessera::comm::detail {
namespace {

AddressList resolve_master(const std::string& host, int64_t port, int socket_type) {
  return resolve(host, port, socket_type, "set MASTER_ADDR to the address of rank 0's host");
}

// A listening socket on the master's own address, not on every interface.
Descriptor listen_at(const std::string& host, int64_t port) {
  const AddressList list = resolve_master(host, port, SOCK_STREAM);
  Descriptor listener(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(listener.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    throw ConfigError(concat("rank 0 cannot listen at MASTER_ADDR=", host, ", MASTER_PORT=", port,
                             " (", std::strerror(errno),
                             "); choose a free port and an address of rank 0's host"));
  }
  return listener;
}

bool is_server(const LaunchInfo& launch) {
  return launch.rank == 0 && !launch.agent_store;
}

// On one host nobody needs to reach it from outside, whatever name MASTER_ADDR has.
std::string store_host(const LaunchInfo& launch) {
  return launch.one_host() && !launch.agent_store ? "127.0.0.1" : launch.master_addr;
}

// Whether a connection comes about within the time; a host that is gone does not even refuse it.
bool can_connect(const addrinfo& address, std::chrono::milliseconds timeout) {
  const Descriptor probe(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd waiting{.fd = probe.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t length = sizeof(error);
  return poll(&waiting, 1, static_cast<int>(timeout.count())) == 1 &&
         getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

// Waits until somebody listens there. A store's client that is refused sleeps for up to half a
// second before it tries again, and ranks of one host start within milliseconds of each other; and
// when its time is up it tries once more, and prints its stack.
bool wait_for_listener(const std::string& host, int64_t port, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongestPause{50};
  constexpr std::chrono::milliseconds kOneTry{1000};
  const AddressList list = resolve_master(host, port, SOCK_STREAM);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (std::chrono::milliseconds pause{1}; std::chrono::steady_clock::now() < deadline;
       pause = std::min(2 * pause, kLongestPause)) {
    if (can_connect(*list, std::min(timeout, kOneTry))) return true;
    std::this_thread::sleep_for(pause);
  }
  return false;
}

[[noreturn]] void fail_to_reach(const LaunchInfo& launch, std::chrono::milliseconds timeout,
                                const std::string& said) {
  throw CommError(concat("rank ", launch.rank, " cannot reach the store of rank 0 at ",
                         store_host(launch), ":", launch.master_port, " within ", timeout.count(),
                         " ms", said,
                         "; is rank 0 running, and are MASTER_ADDR and MASTER_PORT "
                         "right?"));
}

// A store outlives worlds: another world on the same address uses it again, under a new generation.
// So neither a port in TIME_WAIT nor an address of an earlier world can get in the way.
struct OpenStore {
  c10::intrusive_ptr<c10d::Store> store = {};
  c10::intrusive_ptr<c10d::Store> watch_store = {};  // The same, by a client of its own.
  int64_t generation = 0;
};

OpenStore open_store(const LaunchInfo& launch, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.master_port);
  options.isServer = is_server(launch);
  options.waitWorkers = false;
  options.timeout = timeout;
  const std::string host = store_host(launch);
  if (options.isServer) {
    options.masterListenFd = listen_at(host, launch.master_port).release();
    options.useLibUV = false;  // The libuv server does not take over a listening socket.
  } else if (!wait_for_listener(host, launch.master_port, timeout)) {
    fail_to_reach(launch, timeout, "");
  }
  try {
    const auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    return {.store = store, .watch_store = store->clone()};
  } catch (const std::exception& error) {
    fail_to_reach(launch, timeout, concat(" (", engine_words(error), ")"));
  }
}

OpenStore reuse_or_open(const LaunchInfo& launch, std::chrono::milliseconds timeout) {
  static std::mutex mutex;
  static std::map<std::string, OpenStore> stores;
  const std::lock_guard lock(mutex);
  OpenStore& open = stores[concat(launch.master_addr, ":", launch.master_port)];
  if (!open.store) open = open_store(launch, timeout);
  ++open.generation;
  return open;
}

std::vector<uint8_t> random_name() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 2; ++i) name += concat(std::hex, random());
  return {name.begin(), name.end()};
}

}  // namespace

Meeting meet(const LaunchInfo& launch, std::chrono::milliseconds timeout) {
  TSR_CHECK(
      launch.master_port > 0, "MASTER_PORT is not set in a world of ", launch.world_size,
      " ranks; set MASTER_ADDR and MASTER_PORT to the address of rank 0 and to a free port there");
  const OpenStore open = reuse_or_open(launch, timeout);
  // Ranks agree on the prefix through a key that restarts and generations make unique.
  const std::string key =
      concat("tessera/restart", launch.restart_count, "/world", open.generation, "/job");
  if (launch.rank == 0) open.store->set(key, random_name());
  try {
    open.store->wait({key}, timeout);
    const std::vector<uint8_t> name = open.store->get(key);
    const std::string job(name.begin(), name.end());
    return {c10::make_intrusive<c10d::PrefixStore>(job, open.store),
            c10::make_intrusive<c10d::PrefixStore>(job, open.watch_store), job};
  } catch (const std::exception& error) {
    std::throw_with_nested(CommError(concat("rank ", launch.rank, " did not meet rank 0 at ",
                                            launch.master_addr, ":", launch.master_port, " within ",
                                            timeout.count(), " ms (", engine_words(error), ")")));
  }
}

LocalAddress local_address(const LaunchInfo& launch, const Environment& environment) {
  const auto interface = environment("TESSERA_IFACE");
  if (interface && !interface->empty()) return {.interface = *interface};
  if (launch.one_host()) return {};
  // Connecting a datagram socket sends nothing, but picks the address that a route to the master
  // uses.
  const AddressList list = resolve_master(launch.master_addr, launch.master_port, SOCK_DGRAM);
  const Descriptor probe(socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  std::array<char, NI_MAXHOST> host{};
  const bool found = connect(probe.get(), list->ai_addr, list->ai_addrlen) == 0 &&
                     getsockname(probe.get(), reinterpret_cast<sockaddr*>(&name), &length) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&name), length, host.data(),
                                 host.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  TSR_CHECK(found, "no route leads to MASTER_ADDR=", launch.master_addr, " (", std::strerror(errno),
            "); set TESSERA_IFACE to the network interface to use");
  return {.host = host.data()};
}

}  // namespace tessera::comm::detail

#include "tessera/comm/internal/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tessera/base/address.h"
#include "tessera/base/check.h"
#include "tessera/base/descriptor.h"
#include "tessera/base/random_name.h"
#include "tessera/comm/internal/engine_error.h"
#include "tessera/comm/internal/job_store.h"
#include "tessera/launch/store_server.h"

namespace tessera::comm::detail {
namespace {

AddressList resolve_master(const std::string& host, int64_t port, int socket_type) {
  return resolve(host, port, socket_type, "set MASTER_ADDR to the address of rank 0's host");
}

bool is_server(const LaunchInfo& launch) {
  return launch.rank == 0 && !launch.agent_store;
}

// On one host it must not be reachable from outside, whatever MASTER_ADDR is.
StoreAddress address_of(const LaunchInfo& launch) {
  return launch.one_host() ? StoreAddress::on_this_host(launch.master_port)
                           : StoreAddress::on_network(launch.master_addr, launch.master_port);
}

std::string job_secret() {
  return process_environment()("TESSERA_JOB_SECRET").value_or("");
}

[[noreturn]] void fail_to_reach(const LaunchInfo& launch, std::chrono::milliseconds timeout,
                                const std::string& said) {
  throw CommError(concat("rank ", launch.rank, " cannot reach the store of rank 0 at ",
                         launch.master_addr, ":", launch.master_port, " within ", timeout.count(),
                         " ms", said,
                         "; check that rank 0 is running, and MASTER_ADDR and MASTER_PORT"));
}

// A store outlives worlds: another world on the same address reuses it under a new generation. So a
// port in TIME_WAIT or in use by an earlier world is no problem.
struct OpenStore {
  std::shared_ptr<StoreServer> server = {};  // On rank 0 only.
  c10::intrusive_ptr<c10d::Store> store = {};
  c10::intrusive_ptr<c10d::Store> watchdog_store = {};  // The same over another connection.
  int64_t generation = 0;
};

// torchrun's own store, which its launcher hosts. It has no secret.
c10::intrusive_ptr<c10d::Store> agent_store(const LaunchInfo& launch,
                                            std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.master_port);
  options.waitWorkers = false;
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>(launch.master_addr, options);
}

OpenStore open_store(const LaunchInfo& launch, std::chrono::milliseconds timeout) {
  OpenStore open;
  const StoreAddress address = address_of(launch);
  const std::string secret = job_secret();
  if (is_server(launch)) open.server = std::make_shared<StoreServer>(address, secret);
  try {
    if (launch.agent_store) {
      open.store = agent_store(launch, timeout);
    } else {
      open.store = c10::make_intrusive<JobStore>(address, secret, timeout);
    }
    open.watchdog_store = open.store->clone();
    return open;
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    fail_to_reach(launch, timeout, concat(" (", engine_message(error), ")"));
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

}  // namespace

Rendezvous rendezvous(const LaunchInfo& launch, std::chrono::milliseconds timeout) {
  TSR_CHECK(
      launch.master_port > 0, "MASTER_PORT is not set in a world of ", launch.world_size,
      " ranks; set MASTER_ADDR and MASTER_PORT to the address of rank 0 and to a free port there");
  const OpenStore open = reuse_or_open(launch, timeout);
  // Ranks agree on the prefix through a key that is unique per restart and generation.
  const std::string key =
      concat("tessera/restart", launch.restart_count, "/world", open.generation, "/job");
  if (launch.rank == 0) open.store->set(key, random_name());
  try {
    open.store->wait({key}, timeout);
    const std::vector<uint8_t> name = open.store->get(key);
    const std::string job(name.begin(), name.end());
    return {c10::make_intrusive<c10d::PrefixStore>(job, open.store),
            c10::make_intrusive<c10d::PrefixStore>(job, open.watchdog_store), job};
  } catch (const std::exception& error) {
    std::throw_with_nested(CommError(concat(
        "rank ", launch.rank, " could not connect to rank 0 at ", launch.master_addr, ":",
        launch.master_port, " within ", timeout.count(), " ms (", engine_message(error), ")")));
  }
}

LocalAddress local_address(const LaunchInfo& launch, const Environment& environment) {
  const auto interface = environment("TESSERA_IFACE");
  if (interface && !interface->empty()) return {.interface = *interface, .node = launch.node_rank};
  if (launch.one_host()) return {.node = launch.node_rank};
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
  TSR_CHECK(found, "no route to MASTER_ADDR=", launch.master_addr, " (", std::strerror(errno),
            "); set TESSERA_IFACE to the network interface to use");
  return {.host = host.data(), .node = launch.node_rank};
}

}  // namespace tessera::comm::detail

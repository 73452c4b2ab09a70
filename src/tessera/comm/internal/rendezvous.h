#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tessera/comm/internal/engine.h"
#include "tessera/comm/launch_info.h"

namespace tessera::comm::detail {

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Store> watchdog_store;  // The same keys over another connection.
  std::string job;                                 // Unique per job; the same on all its ranks.
};

/// **Collective.** Opens the store of this job, with a prefix that no other job and no earlier
/// world of this process has. On one host it listens on loopback only.
Rendezvous rendezvous(const LaunchInfo& launch, std::chrono::milliseconds timeout);

/// The address at which other ranks reach this process: loopback on one host, otherwise
/// TESSERA_IFACE or the source address of the route to the master.
LocalAddress local_address(const LaunchInfo& launch, const Environment& environment);

}  // namespace tessera::comm::detail

#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tessera/comm/internal/engine.h"
#include "tessera/comm/launch_info.h"

namespace tessera::comm::detail {

struct Meeting {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Store> watchdog_store;  // The same keys by a client of its own.
  std::string job;                                 // The same on all ranks, and no other job's.
};

/// **Collective.** The store through which the ranks of this job meet, below a prefix that no other
/// job and no earlier world of this process has. On one host it listens on loopback alone.
Meeting meet(const LaunchInfo& launch, std::chrono::milliseconds timeout);

/// Where the others can reach this process: loopback on one host, otherwise TESSERA_IFACE or the
/// address that the route to the master goes out from.
LocalAddress local_address(const LaunchInfo& launch, const Environment& environment);

}  // namespace tessera::comm::detail

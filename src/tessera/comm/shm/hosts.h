#pragma once

#include <vector>

#include "tessera/comm/internal/engine.h"

namespace tessera::comm::detail::shm {

/// **Collective.** Joins the ranks of several hosts, with equally many on each. All-reduce,
/// all-gather and reduce-scatter go through `memory` inside a host, and ranks with equal places on
/// their hosts exchange the rest over `between`'s communicators; all other operations use those
/// alone. `hosts` has the host of each rank of the group.
c10::intrusive_ptr<c10d::Backend> join_hosts(c10::intrusive_ptr<c10d::Backend> memory,
                                             const std::vector<int>& hosts,
                                             const CommunicatorRequest& request, Engine& between);

}  // namespace tessera::comm::detail::shm

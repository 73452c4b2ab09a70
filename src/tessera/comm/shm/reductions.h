#pragma once

#include "tessera/comm/shm/rounds.h"
#include "tessera/comm/shm/steps.h"

/// Collectives that combine numbers. The order depends on the ranks alone: all get the same bits.
namespace tessera::comm::detail::shm {

Steps all_reduce(Rounds& rounds, std::byte* data, ReduceCall reduction);
/// Only the root's data changes.
Steps reduce(Rounds& rounds, std::byte* data, ReduceCall reduction, int root);
/// `reduction.count` is that of the output; the input has as many per rank.
Steps reduce_scatter(Rounds& rounds, std::byte* output, const std::byte* input,
                     ReduceCall reduction);

}  // namespace tessera::comm::detail::shm

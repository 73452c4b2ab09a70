#pragma once

#include <vector>

#include "tessera/comm/shm/rounds.h"
#include "tessera/comm/shm/steps.h"

/// Collectives that copy bytes, and the barrier.
namespace tessera::comm::detail::shm {

/// `bytes` per rank.
Steps all_gather(Rounds& rounds, std::byte* output, const std::byte* input, size_t bytes);
Steps broadcast(Rounds& rounds, std::byte* data, size_t bytes, int root);
/// `outputs` on the root only, one per rank.
Steps gather(Rounds& rounds, std::vector<std::byte*> outputs, const std::byte* input, size_t bytes,
             int root);
/// `inputs` on the root only.
Steps scatter(Rounds& rounds, std::byte* output, std::vector<const std::byte*> inputs, size_t bytes,
              int root);
/// The bytes for each rank, one after the other, and those from each rank.
Steps all_to_all(Rounds& rounds, std::byte* output, const std::byte* input,
                 std::vector<size_t> receive, std::vector<size_t> send);
Steps barrier(Rounds& rounds);

}  // namespace tessera::comm::detail::shm

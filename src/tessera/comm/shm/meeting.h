#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tessera/comm/shm/board.h"

namespace c10d {
class Store;
}

namespace tessera::comm::detail::shm {

/// Why a group does not use shared memory.
struct Refusal {
  std::string reason = "";  // Empty if it is not worth telling.
};

/// The ranks of a group that share memory: those of this host.
struct Meeting {
  std::unique_ptr<Board> board;
  std::vector<int> hosts = {};  // The host of each rank of the group, counted from 0.

  int num_hosts() const { return 1 + *std::ranges::max_element(hosts); }
};

/// A rank of a group that may share memory with others.
struct Candidate {
  int rank = 0;
  int size = 1;
  int64_t node = 0;    // As its launcher counts; ranks of two nodes never share memory.
  bool wanted = true;  // Whether it wants to.
  std::shared_ptr<const Arena> arena = nullptr;  // What others may read; null if it has none.
};

/// **Collective.** The ranks of each host share a segment; all hosts have equally many, at least 2.
/// Otherwise, and if a rank does not want to or cannot open or allocate the memory, all ranks of
/// the group are refused.
std::variant<Meeting, Refusal> meet(c10d::Store& store, const Candidate& candidate,
                                    OpenArenas& open_arenas);

}  // namespace tessera::comm::detail::shm

#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <variant>

#include "tessera/comm/shm/board.h"

namespace tessera::comm::detail::shm {

/// Why a group does not use shared memory.
struct Refusal {
  std::string reason = "";  // Empty if it is not worth telling.
};

/// **Collective.** The ranks of a group share a segment. All get a board, or all are refused: if a
/// rank does not want to, runs elsewhere, or cannot open or allocate the memory.
std::variant<std::unique_ptr<Board>, Refusal> meet(c10d::Store& store, int rank, int size,
                                                   bool wanted);

}  // namespace tessera::comm::detail::shm

#pragma once

#include <memory>

#include "tessera/comm/internal/engine.h"

namespace tessera::comm::detail::shm {

/// Shared memory for groups whose ranks all run on one host, for CPU tensors. `other` makes the
/// communicators of all other groups, and of all groups with TESSERA_SHM=0.
std::unique_ptr<Engine> make_engine(std::unique_ptr<Engine> other);

/// The name of its communicators.
inline constexpr const char* kBackendName = "shm";

}  // namespace tessera::comm::detail::shm

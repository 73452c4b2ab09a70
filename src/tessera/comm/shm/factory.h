#pragma once

#include <memory>

#include "tessera/comm/internal/engine.h"

namespace tessera::comm::detail::shm {

/// Shared memory between the ranks of a host, for CPU tensors. `other` connects hosts, and makes
/// the communicators of groups that share no memory, e.g. with TESSERA_SHM=0.
std::unique_ptr<Engine> make_engine(std::unique_ptr<Engine> other, const LocalAddress& address);

/// The names of its communicators: of one host, and of several.
inline constexpr const char* kBackendName = "shm";
inline constexpr const char* kHostsBackendName = "shm+gloo";

}  // namespace tessera::comm::detail::shm

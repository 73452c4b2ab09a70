#pragma once

#include <memory>

#include "tessera/comm/internal/engine.h"

namespace tessera::comm::detail::gloo {

/// LibTorch's Gloo, for CPU tensors.
std::unique_ptr<Engine> make_engine(const LocalAddress& address);

}  // namespace tessera::comm::detail::gloo

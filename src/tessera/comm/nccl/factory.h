#pragma once

#include <memory>

#include "tessera/comm/internal/engine.h"

namespace tessera::comm::detail::nccl {

/// LibTorch's NCCL, for CUDA tensors; ConfigError in builds without CUDA.
std::unique_ptr<Engine> make_engine(const LocalAddress& address);

}  // namespace tessera::comm::detail::nccl

#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/comm/shm/collective_queue.h"

namespace c10d {
struct ReduceOp;
}

namespace tessera::comm::detail::shm {

/// The reduction of a tensor; its dtype must be one that engines reduce.
ReduceCall call_of(const at::Tensor& tensor, const c10d::ReduceOp& op);

}  // namespace tessera::comm::detail::shm

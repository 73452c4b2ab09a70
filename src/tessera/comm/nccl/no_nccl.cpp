#include "tessera/base/error.h"
#include "tessera/comm/nccl/factory.h"

namespace tessera::comm::detail::nccl {

std::unique_ptr<Engine> make_engine(const LocalAddress&) {
  throw ConfigError(
      "the NCCL back end needs a build with a CUDA LibTorch and the CUDA toolkit; use gloo, or "
      "build with CUDA");
}

}  // namespace tessera::comm::detail::nccl

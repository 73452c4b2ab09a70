#include "tessera/base/check.h"
#include "tessera/kernel/nvrtc/nvrtc.h"

namespace tessera::kernel::detail {

bool is_gpu(at::Device /*device*/) {
  return false;
}

std::optional<GpuCapability> capability(at::Device /*device*/) {
  return std::nullopt;
}

const char* conversions() {
  return "";
}

void* compile(at::Device /*device*/, const std::string& /*name*/, const std::string& /*source*/,
              const std::string& /*flags*/) {
  throw StateError("this Tessera was built without CUDA");
}

void start(at::Device /*device*/, const char* /*name*/, void* /*function*/, int64_t /*blocks*/,
           int64_t /*threads*/, void** /*arguments*/) {
  throw StateError("this Tessera was built without CUDA");
}

}  // namespace tessera::kernel::detail

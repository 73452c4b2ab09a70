#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/kernel/gpu_graph.h"

namespace tessera {

std::unique_ptr<GpuGraph> make_gpu_graph(c10::Device device) {
  throw ConfigError(concat("CUDA graphs need a GPU and a build with CUDA, but the device is '",
                           device.str(), "'; leave them out"));
}

}  // namespace tessera

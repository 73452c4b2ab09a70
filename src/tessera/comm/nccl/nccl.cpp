#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "tessera/base/check.h"
#include "tessera/comm/nccl/factory.h"

namespace tessera::comm::detail::nccl {
namespace {

class NcclEngine : public Engine {
 public:
  c10::intrusive_ptr<c10d::Backend> create(const CommunicatorRequest& request) override {
    auto options = c10d::ProcessGroupNCCL::Options::create(request.nccl.high_priority_stream);
    options->timeout = request.timeout;
    options->group_name = request.name;
    for (const GlobalRank rank : request.ranks) {
      options->global_ranks_in_group.push_back(static_cast<uint64_t>(rank.value));
    }
    if (request.nccl.cga_cluster_size)
      options->config.cgaClusterSize = *request.nccl.cga_cluster_size;
    if (request.nccl.min_ctas) options->config.minCTAs = *request.nccl.min_ctas;
    if (request.nccl.max_ctas) options->config.maxCTAs = *request.nccl.max_ctas;
    // NCCL keeps the pointer for the life of the communicator.
    if (request.nccl.net_name) options->config.netName = strdup(request.nccl.net_name->c_str());
    if (request.parent) set_parent(request, *options);
    auto made = c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank,
                                                            request.size, options);
    if (request.connected_device) made->eagerConnectSingleDevice(*request.connected_device);
    return made;
  }

 private:
  // NCCL wants no operation of the parent to run while it splits.
  static void set_parent(const CommunicatorRequest& request,
                         c10d::ProcessGroupNCCL::Options& options) {
    const c10::cuda::CUDAGuard guard(*request.connected_device);
    c10::cuda::device_synchronize();
    options.split_from = c10::static_intrusive_pointer_cast<c10d::ProcessGroupNCCL>(request.parent);
    options.split_color = request.color;
  }
};

}  // namespace

std::unique_ptr<Engine> make_engine(const LocalAddress&) {
  TSR_CHECK(at::hasCUDA(), "NCCL needs a GPU, but this process sees none; use gloo");
  return std::make_unique<NcclEngine>();
}

}  // namespace tessera::comm::detail::nccl

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>

#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/kernel/gpu_graph.h"

namespace tessera {
namespace {

using c10::cuda::CUDAStream;

class CudaGraph final : public GpuGraph {
 public:
  // The default stream cannot be recorded.
  explicit CudaGraph(c10::Device device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  void run(const Work& work) override { on_stream(work); }

  void record(const Work& work) override {
    // The recording has memory of its own, so what earlier steps left is not needed.
    c10::cuda::CUDACachingAllocator::emptyCache();
    on_stream([&] { capture(work); });
  }

  void replay() override {
    on_stream([this] { graph_.replay(); });
  }

 private:
  // Other threads may use CUDA meanwhile, e.g. to copy a checkpoint; the engine of autograd has one
  // of its own, too.
  void capture(const Work& work) {
    graph_.capture_begin(/*pool=*/{0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (const std::exception& error) {
      abandon();
      throw StateError(concat("this work cannot be recorded as a CUDA graph: ", error.what()));
    }
    graph_.capture_end();
  }

  void abandon() {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {  // Of a recording that has failed already.
    }
  }

  // After what the caller's stream has got so far, and before what it gets next.
  void on_stream(const Work& work) {
    const CUDAStream outside = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    order(outside, stream_);
    {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      work();
    }
    order(stream_, outside);
  }

  void order(const CUDAStream& first, const CUDAStream& second) {
    reached_.record(first);
    reached_.block(second);
  }

  CUDAStream stream_;
  at::cuda::CUDAEvent reached_{};
  at::cuda::CUDAGraph graph_{};
};

}  // namespace

std::unique_ptr<GpuGraph> make_gpu_graph(c10::Device device) {
  TSR_CHECK(device.is_cuda(), "CUDA graphs need a GPU, but the device is '", device.str(),
            "'; give --device cuda as well, or leave them out");
  return std::make_unique<CudaGraph>(device);
}

}  // namespace tessera

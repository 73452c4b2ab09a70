#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <optional>

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

  // What fails has begun nevertheless, and the caller frees what it reads.
  void run(const Work& work) override {
    try {
      on_stream(work);
    } catch (...) {
      order(stream_, outside());
      throw;
    }
  }

  void record(const Work& work) override {
    forget();
    graph_.emplace();
    on_stream([&] { capture(work); });
  }

  void replay() override {
    on_stream([this] { graph_->replay(); });
  }

  // A recording has memory of its own, so what earlier work left in the cache is of no use to it.
  void forget() override {
    graph_.reset();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

 private:
  CUDAStream outside() const { return c10::cuda::getCurrentCUDAStream(stream_.device_index()); }

  // Other threads may use CUDA meanwhile, e.g. to copy a checkpoint; autograd has its own thread,
  // too.
  void capture(const Work& work) {
    const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
    try {
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      work();
      graph_->capture_end();
    } catch (const std::exception& error) {
      abandon(pool);
      throw StateError(concat("this work cannot be recorded as a CUDA graph: ", error.what()));
    }
  }

  // A recording that has failed ends with an error, and then does not give back its pool.
  void abandon(at::cuda::MempoolId_t pool) {
    try {
      graph_->capture_end();
    } catch (const std::exception&) {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(stream_.device_index(), pool);
    }
    graph_.reset();
  }

  // After what the caller's stream has got so far, and before what it gets next.
  void on_stream(const Work& work) {
    order(outside(), stream_);
    {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      work();
    }
    order(stream_, outside());
  }

  void order(const CUDAStream& first, const CUDAStream& second) {
    reached_.record(first);
    reached_.block(second);
  }

  CUDAStream stream_;
  at::cuda::CUDAEvent reached_{};
  std::optional<at::cuda::CUDAGraph> graph_{};
};

}  // namespace

std::unique_ptr<GpuGraph> make_gpu_graph(c10::Device device) {
  TSR_CHECK(device.is_cuda(), "CUDA graphs need a GPU, but the device is '", device.str(),
            "'; give --device cuda as well, or leave them out");
  return std::make_unique<CudaGraph>(device);
}

}  // namespace tessera

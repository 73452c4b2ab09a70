#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <functional>
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
    if (!graph_) throw StateError("there is no recording to repeat; call record() before replay()");
    on_stream([this] { graph_->replay(); });
  }

  // A recording has memory of its own, so what earlier work left in the cache is of no use to it.
  // The caller's stream may still read that, and the cache waits for this stream alone.
  void forget() override {
    order(outside(), stream_);
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

  void abandon(at::cuda::MempoolId_t pool) {
    try_to([&] { graph_->capture_end(); });
    graph_.reset();
    const c10::DeviceIndex gpu = stream_.device_index();
    namespace memory = c10::cuda::CUDACachingAllocator;
    // A recording that ends with an error keeps its pools. How many of the steps of its end it has
    // made before that differs between versions of LibTorch.
    bool is_kept = true;  // Allocators other than LibTorch's own do not say.
    try_to([&] { is_kept = memory::getPoolUseCount(gpu, pool) > 0; });
    if (is_kept) {
      at::HostAllocator* const pinned = at::getHostAllocator(at::kCUDA);
      try_to([&] { memory::endAllocateToPool(gpu, pool); });
      try_to([&] { pinned->end_allocate_to_pool(pool); });
      try_to([&] { memory::releasePool(gpu, pool); });
      try_to([&] { pinned->release_pool(pool); });
    }
    try_to(free_random_numbers);
  }

  // A recording that ends with an error leaves the generator of random numbers as if it went on,
  // and operators outside would refuse to use it. One that ends well sets it right.
  static void free_random_numbers() {
    const at::Tensor some = at::zeros({1}, at::kCUDA);
    at::cuda::CUDAGraph graph;
    graph.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
    some.zero_();
    graph.capture_end();
  }

  // The first error is the one to report.
  static void try_to(const std::function<void()>& do_it) {
    try {
      do_it();
    } catch (const std::exception&) {
    }
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

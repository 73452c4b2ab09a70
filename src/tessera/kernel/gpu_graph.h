#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Work of a GPU that is recorded once and then repeated as a whole (a CUDA graph): the same
/// kernels with the same arguments, at the same addresses, without an operator on the host.
///
/// One thread at a time.
class GpuGraph {
 public:
  /// Calls LibTorch's operators, or kernels.
  using Work = std::function<void()>;

  GpuGraph() = default;
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;
  virtual ~GpuGraph() = default;

  /// Does the work, on the stream that record() uses. Libraries prepare themselves for a stream at
  /// their first calls, which cannot be recorded, so the work must have run before it is recorded.
  virtual void run(const Work& work) = 0;
  /// Records the work instead of what was recorded before; it is not done. The values of the
  /// tensors that it makes are those of the last replay(). Inputs are read where they are now, so
  /// they must live as long. StateError if the host would wait for the GPU during the work.
  virtual void record(const Work& work) = 0;
  /// Does what was recorded. StateError if nothing is.
  virtual void replay() = 0;
  /// Frees the recording and its memory.
  virtual void forget() = 0;
};

/// ConfigError if the device cannot record: it must be a GPU.
std::unique_ptr<GpuGraph> make_gpu_graph(c10::Device device);

}  // namespace tessera

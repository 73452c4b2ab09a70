#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/parallel/pipeline/internal/tensor_form.h"

namespace tessera::pipeline::detail {

/// Receive buffers. A buffer is reused as soon as no other tensor, e.g. one that autograd or the
/// user has kept, shares its memory.
class BufferPool {
 public:
  explicit BufferPool(at::Device device) : device_(device) {}

  at::Tensor take(const TensorForm& form);
  /// Frees the buffers that were not taken since the last call.
  void drop_unused();
  /// Number of buffers.
  size_t size() const { return buffers_.size(); }

 private:
  struct Buffer {
    at::Tensor tensor;
    bool used = true;

    bool is_free() const;
  };

  at::Device device_;
  std::vector<Buffer> buffers_;
};

}  // namespace tessera::pipeline::detail

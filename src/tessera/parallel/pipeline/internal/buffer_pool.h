#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/parallel/pipeline/internal/tensor_form.h"

namespace tessera::pipeline::detail {

/// Memory for what is received, used again as soon as nobody else holds it: a tensor that autograd
/// or the user has kept, or that is a view of the same memory, is left alone.
class BufferPool {
 public:
  explicit BufferPool(at::Device device) : device_(device) {}

  at::Tensor take(const TensorForm& form);
  /// Lets go of what was not taken since the last call.
  void drop_unused();
  /// How many buffers there are.
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

#include <ATen/ops/empty.h>

#include <algorithm>

#include "tessera/parallel/pipeline/internal/buffer_pool.h"

namespace tessera::pipeline::detail {

bool BufferPool::Buffer::is_free() const {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

at::Tensor BufferPool::take(const TensorForm& form) {
  const auto fits = [&](const Buffer& buffer) {
    return buffer.tensor.scalar_type() == form.dtype && buffer.tensor.sizes() == form.sizes &&
           buffer.is_free();
  };
  const auto found = std::ranges::find_if(buffers_, fits);
  if (found != buffers_.end()) {
    found->used = true;
    return found->tensor;
  }
  buffers_.push_back({at::empty(form.sizes, at::TensorOptions(form.dtype).device(device_))});
  return buffers_.back().tensor;
}

void BufferPool::drop_unused() {
  std::erase_if(buffers_, [](const Buffer& buffer) { return !buffer.used; });
  for (Buffer& buffer : buffers_) buffer.used = false;
}

}  // namespace tessera::pipeline::detail

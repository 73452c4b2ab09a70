#include "tessera/layer/hollow.h"

#include <ATen/ops/empty.h>

namespace tessera {

at::Tensor hollow(at::IntArrayRef shape, const at::TensorOptions& options) {
  const at::Tensor tensor = at::empty({0}, options);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

bool is_hollow(const at::Tensor& tensor) {
  return tensor.numel() > 0 && tensor.storage().nbytes() == 0;
}

}  // namespace tessera

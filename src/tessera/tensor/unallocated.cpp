#include "tessera/tensor/unallocated.h"

#include <ATen/ops/empty.h>
#include <c10/core/StorageImpl.h>

namespace tessera {

at::Tensor unallocated(at::IntArrayRef shape, const at::TensorOptions& options) {
  const at::Tensor tensor = at::empty({0}, options);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  // Without this, some operators would read a null pointer.
  tensor.storage().unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "The tensor is not allocated yet; load or initialize the model before reading it.");
  return tensor;
}

bool is_unallocated(const at::Tensor& tensor) {
  return tensor.numel() > 0 && tensor.storage().nbytes() == 0;
}

}  // namespace tessera

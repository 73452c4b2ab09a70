#include "tessera/tensor/internal/storage.h"

#include <c10/core/StorageImpl.h>

#include "tessera/base/check.h"

namespace tessera {

void free_storage(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(size_t{0});
}

void refill_storage(const at::Tensor& tensor, const at::Tensor& contents) {
  TSR_ASSERT(contents.is_contiguous() && contents.storage_offset() == 0 &&
                 contents.sizes() == tensor.sizes(),
             "storage is refilled from other contents");
  c10::StorageImpl* const from = contents.storage().unsafeGetStorageImpl();
  c10::StorageImpl* const to = tensor.storage().unsafeGetStorageImpl();
  to->set_nbytes(from->nbytes());
  to->set_data_ptr_noswap(from->set_data_ptr(c10::DataPtr(nullptr, tensor.device())));
  from->set_nbytes(size_t{0});
}

}  // namespace tessera

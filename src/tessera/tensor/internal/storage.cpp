#include "tessera/tensor/internal/storage.h"

#include <c10/core/StorageImpl.h>

#include "tessera/base/check.h"

namespace tessera {

void free_storage(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(size_t{0});
  // Without this some operators would read at the null pointer.
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "The tensor's memory was given back by reshard_(); call unshard_() before it is read.");
}

void refill_storage(const at::Tensor& tensor, const at::Tensor& contents) {
  TSR_ASSERT(contents.is_contiguous() && contents.storage_offset() == 0 &&
                 contents.sizes() == tensor.sizes(),
             "storage is refilled from other contents");
  // With the memory the mark that it is gone changes places, too.
  tensor.storage().unsafeGetStorageImpl()->swap_data_ptr(
      *contents.storage().unsafeGetStorageImpl());
}

}  // namespace tessera

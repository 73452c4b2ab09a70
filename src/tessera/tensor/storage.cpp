#include "tessera/tensor/storage.h"

#include <ATen/ops/empty.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// LibTorch 2.11 cannot remove the mark of an emptied storage, so it gets none there.
template <class Storage>
constexpr bool kCanMark = requires(Storage& storage) { storage.swap_data_ptr(storage); };

template <class Storage>
void mark_empty(Storage& storage) {
  if constexpr (kCanMark<Storage>) {
    // Without this, some operators would read a null pointer.
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(
        "The tensor's memory was freed when it was resharded; unshard it before reading it.");
  }
}

template <class Storage>
void move_memory(Storage& from, Storage& to) {
  if constexpr (kCanMark<Storage>) {
    to.swap_data_ptr(from);  // Swaps the mark as well.
  } else {
    to.set_nbytes(from.nbytes());
    to.set_data_ptr_noswap(from.set_data_ptr(c10::DataPtr(nullptr, from.device())));
    from.set_nbytes(size_t{0});
  }
}

}  // namespace

void free_storage(const at::Tensor& tensor) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, tensor.device()));
  storage.set_nbytes(size_t{0});
  mark_empty(storage);
}

bool freed_storage_throws() {
  return kCanMark<c10::StorageImpl>;
}

void refill_storage(const at::Tensor& tensor, const at::Tensor& contents) {
  TSR_ASSERT(contents.is_contiguous() && contents.storage_offset() == 0 &&
                 contents.sizes() == tensor.sizes(),
             "storage is refilled from other contents");
  move_memory(*contents.storage().unsafeGetStorageImpl(), *tensor.storage().unsafeGetStorageImpl());
}

at::Tensor freed_tensor(at::IntArrayRef shape, const at::TensorOptions& options) {
  const at::Tensor tensor = at::empty({0}, options);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  free_storage(tensor);
  return tensor;
}

at::Tensor view_into(const at::Tensor& flat, int64_t offset, at::IntArrayRef shape) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(flat.storage()), flat.key_set(), flat.dtype());
  view.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  view.unsafeGetTensorImpl()->set_storage_offset(offset);
  return view;
}

}  // namespace tessera

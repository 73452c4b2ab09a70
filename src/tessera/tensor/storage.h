#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

/// The memory of a tensor, given back and taken again while the tensor stays the same object.
namespace tessera TSR_API {

/// Frees the memory of the tensor's storage at once, even if others refer to it. Shapes stay;
/// reading it is an error until it is refilled, if this LibTorch supports that.
void free_storage(const at::Tensor& tensor);
/// Whether it does. LibTorch 2.11 reads a null pointer.
bool freed_storage_throws();

/// Moves the memory of `contents` into the storage; it must have the same shape and dtype and no
/// other references. Nothing is copied, and for autograd the value is unchanged: what it has saved
/// is valid again.
void refill_storage(const at::Tensor& tensor, const at::Tensor& contents);

/// A tensor whose storage is freed from the start.
at::Tensor freed_tensor(at::IntArrayRef shape, const at::TensorOptions& options);

/// A tensor of this shape whose elements begin at `offset` in the storage of `flat`, which may have
/// no memory at the time.
at::Tensor view_into(const at::Tensor& flat, int64_t offset, at::IntArrayRef shape);

}  // namespace tessera

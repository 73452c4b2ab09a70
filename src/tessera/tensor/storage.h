#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/base/export.h"

/// The memory of a tensor, given back and taken again while the tensor stays the same object.
namespace tessera TSR_API {

/// Gives the memory of the tensor's storage back at once, whoever else refers to it. Shapes stay;
/// reading it raises an error until it is refilled, where this LibTorch can do that.
void free_storage(const at::Tensor& tensor);
/// Whether it can. The older one (2.11) reads at a null pointer.
bool freed_storage_throws();

/// The storage gets the memory of `contents`, a tensor of the same shape and dtype that nobody else
/// refers to. Nothing is copied, and autograd takes it for the same value: what it saved is valid
/// again.
void refill_storage(const at::Tensor& tensor, const at::Tensor& contents);

/// A tensor of this shape whose elements begin at `offset` in the storage of `flat`, which may have
/// no memory at the time.
at::Tensor view_into(const at::Tensor& flat, int64_t offset, at::IntArrayRef shape);

}  // namespace tessera

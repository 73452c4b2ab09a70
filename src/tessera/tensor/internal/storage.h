#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

/// Gives the memory of the tensor's storage back at once, whoever else refers to it. Shapes stay;
/// reading it raises an error until it is refilled.
void free_storage(const at::Tensor& tensor);

/// The storage gets the memory of `contents`, a tensor of the same shape and dtype that nobody else
/// refers to. Nothing is copied, and autograd takes it for the same value: what it saved is valid
/// again.
void refill_storage(const at::Tensor& tensor, const at::Tensor& contents);

}  // namespace tessera

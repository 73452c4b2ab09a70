#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Calls `callback` each time a backward pass has added to the gradient of the parameter, a leaf
/// tensor. A tensor has one such callback: this replaces an earlier one; an empty one removes it.
///
/// The engine also calls it if the gradient is undefined, e.g. because a layer defers it.
void set_gradient_hook(const at::Tensor& parameter, std::function<void()> callback);

}  // namespace tessera

#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>

namespace tessera {

/// How many of `count` inputs of a function of autograd, from `first` on, want a gradient in this
/// backward pass.
inline size_t wanted_gradients(const torch::autograd::AutogradContext& context, size_t first,
                               size_t count) {
  size_t wanted = 0;
  for (size_t i = first; i < first + count; ++i) wanted += context.needs_input_grad(i) ? 1 : 0;
  return wanted;
}

}  // namespace tessera

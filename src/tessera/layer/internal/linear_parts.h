#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>
#include <torch/custom_class.h>

#include <utility>

#include "tessera/layer/weight_gradients.h"

namespace tessera::layer::detail {

/// All vectors of x as the rows of a matrix.
inline at::Tensor as_matrix(const at::Tensor& x) {
  return x.reshape({c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)), x.size(-1)});
}

/// Autograd can only save its own types, so a holder carries the queue to the backward pass.
struct QueueHolder : torch::CustomClassHolder {
  explicit QueueHolder(WeightGradients given) : queue(std::move(given)) {}
  WeightGradients queue;
};

inline c10::IValue held(const WeightGradients& queue) {
  return c10::IValue::make_capsule(c10::make_intrusive<QueueHolder>(queue));
}

inline WeightGradients queue_in(const c10::IValue& held) {
  return static_cast<const QueueHolder&>(*held.toCapsule()).queue;
}

}  // namespace tessera::layer::detail

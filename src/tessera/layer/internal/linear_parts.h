#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>
#include <vector>

#include "tessera/layer/pass.h"

namespace tessera::layer::detail {

/// All vectors of x as the rows of a matrix.
inline at::Tensor as_matrix(const at::Tensor& x) {
  return x.reshape({c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)), x.size(-1)});
}

/// The rows of a matrix in the batch of x.
inline at::Tensor with_shape_of(const at::Tensor& x, const at::Tensor& rows) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = rows.size(-1);
  return rows.view(shape);
}

/// What the backward pass needs to know of the pass.
inline void keep(const Pass& pass, torch::autograd::AutogradContext& context) {
  context.saved_data["fp8"] = static_cast<int64_t>(pass.fp8);
  context.saved_data["adds"] = pass.adds_gradients;
}
inline bool kept_adds(torch::autograd::AutogradContext& context) {
  return context.saved_data["adds"].toBool();
}
inline Fp8 kept_fp8(torch::autograd::AutogradContext& context) {
  return static_cast<Fp8>(context.saved_data["fp8"].toInt());
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

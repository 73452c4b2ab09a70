#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Deferred weight gradients, for zero-bubble schedules: the backward pass sends the input gradient
/// at once, and queues the product for the weight gradient here with its operands.
///
///   WeightGradients later;
///   at::Tensor loss = token_loss(model.forward(tokens, {.deferred = &later}), targets);
///   loss.backward();  // Gradients of inputs, norms and embeddings.
///   later.run();      // Gradients of weights.
///
/// A hook of a weight's gradient is called twice: by the backward pass with an undefined tensor,
/// and by run() with the gradient.
///
/// A handle: copies share the queue. Only one backward pass or run() at a time.
class WeightGradients {
 public:
  WeightGradients();

  /// Whether run() has nothing to do.
  bool empty() const { return size() == 0; }
  /// Number of queued products.
  size_t size() const;
  /// Computes them in order, accumulates each like backward() would, including hooks, and frees
  /// their operands.
  void run() const;
  /// For layers: queues a product, which accumulates its result itself (accumulate_gradient()).
  void add(std::function<void()> product) const;

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;
};

/// Adds a gradient to a parameter like backward() does, including hooks. Does nothing if the
/// parameter needs no gradient. The first gradient is kept without a copy if nobody else holds it.
void accumulate_gradient(const at::Tensor& parameter, at::Tensor gradient);

/// The same with a gradient whose rows several parameters share.
void accumulate_gradients(at::TensorList parameters, at::Tensor gradient);

/// The same with a product of two matrices, whose rows several parameters share. If there are
/// gradients that lie behind each other in memory, the product adds to them directly, without a
/// tensor of its own.
void accumulate_product(at::TensorList parameters, const at::Tensor& left, const at::Tensor& right);

/// For the backward pass of a layer: adds a product of two matrices to the gradient of a parameter
/// in its place, so that autograd need not get it. Autograd runs the hooks that follow a gradient
/// nevertheless. False, and nothing changes, if there is no gradient to add to, if a hook wants to
/// see the product alone, or if this version of LibTorch would not run the hooks.
///
/// Several parameters share the rows of the product. Their gradients must lie behind each other in
/// memory; otherwise false.
bool add_product_in_place(at::TensorList parameters, const at::Tensor& left,
                          const at::Tensor& right);

/// ConfigError unless the parameter, which may be undefined, can get a deferred gradient: it must
/// be a leaf.
void check_deferrable(const at::Tensor& parameter);

}  // namespace tessera

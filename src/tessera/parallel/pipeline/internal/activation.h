#pragma once

#include "tessera/parallel/pipeline/stage.h"

namespace tessera::pipeline::detail {

/// How the backward of a microbatch is split.
enum class BackwardForm {
  kNone,      // No backward.
  kWhole,     // B.
  kDeferred,  // I, then W: the stage defers its weight gradients until W.
  kTwoWalks,  // I, then W: one backward pass for the inputs, a second one for the weights.
};

/// One microbatch on one stage, from its forward until the end of its backward.
class Activation {
 public:
  /// Inputs that need gradients must be leaves, except on the first stage, where they belong to the
  /// user.
  Activation(Tensors inputs, bool first_stage, BackwardForm form);

  /// ConfigError if the stage returns no tensors.
  void forward(const Stage& stage, StagePass pass);
  const Tensors& outputs() const { return outputs_; }
  /// Starts the backward from the loss, weighted by `share`, and releases the outputs.
  void set_loss(const at::Tensor& loss, double share);

  /// B and I. Takes the gradients of the outputs that require one; none if there is a loss. Returns
  /// the gradients of the inputs that require one; zeros for an unused input.
  Tensors backward(const Tensors& gradients);
  /// W.
  void weight_gradients();

 private:
  void choose_roots(const Tensors& gradients);
  Tensors walk_for_inputs();
  void walk_whole();
  Tensors take_input_gradients();

  Tensors inputs_;
  bool first_stage_;
  BackwardForm form_;
  Tensors outputs_ = {};
  at::Tensor loss_ = {};
  double share_ = 1;
  WeightGradients deferred_ = {};
  // Where the backward starts.
  Tensors roots_ = {};
  Tensors root_gradients_ = {};
};

}  // namespace tessera::pipeline::detail

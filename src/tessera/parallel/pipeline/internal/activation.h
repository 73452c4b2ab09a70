#pragma once

#include "tessera/parallel/pipeline/stage.h"

namespace tessera::pipeline::detail {

/// How the backward of a microbatch is done.
enum class BackwardForm {
  kNone,      // Not at all.
  kWhole,     // B.
  kDeferred,  // I, then W: the stage leaves weight gradients where W finds them.
  kTwoWalks,  // I, then W: the graph is walked for the inputs, and again for the weights.
};

/// One microbatch on one stage, from its forward to the end of its backward.
class Activation {
 public:
  /// Inputs that need gradients are leaves, except on the first stage, where they are the user's.
  Activation(Tensors inputs, bool first_stage, BackwardForm form);

  /// ConfigError where the stage gives no tensors.
  void forward(const Stage& stage, StagePass pass);
  const Tensors& outputs() const { return outputs_; }
  /// The backward begins with the loss, which counts by this share; outputs are let go.
  void set_loss(const at::Tensor& loss, double share);

  /// B and I. The gradients are for those outputs that require one, none where there is a loss;
  /// those given back are for the inputs that do. Zeros for an input that was not used.
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
  // What the backward starts with.
  Tensors roots_ = {};
  Tensors root_gradients_ = {};
};

}  // namespace tessera::pipeline::detail

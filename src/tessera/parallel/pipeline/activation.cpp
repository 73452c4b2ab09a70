#include "tessera/parallel/pipeline/internal/activation.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/base/check.h"

namespace tessera::pipeline::detail {
namespace {

Tensors needing_gradients(const Tensors& tensors) {
  Tensors found;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) found.push_back(tensor);
  }
  return found;
}

at::Tensor or_zeros(const at::Tensor& gradient, const at::Tensor& tensor) {
  return gradient.defined() ? gradient : at::zeros_like(tensor);
}

}  // namespace

Activation::Activation(Tensors inputs, bool first_stage, BackwardForm form)
    : inputs_(std::move(inputs)), first_stage_(first_stage), form_(form) {}

void Activation::forward(const Stage& stage, StagePass pass) {
  if (form_ == BackwardForm::kDeferred) pass.deferred = &deferred_;
  outputs_ = stage.forward(inputs_, pass);
  TSR_CHECK(!outputs_.empty(), "stage ", stage.index, " returned no outputs for microbatch ",
            pass.microbatch, "; return at least one tensor");
  for (size_t i = 0; i < outputs_.size(); ++i) {
    TSR_CHECK(outputs_[i].defined(), "output ", i, " of stage ", stage.index, " for microbatch ",
              pass.microbatch, " is undefined; return defined tensors only");
  }
}

void Activation::set_loss(const at::Tensor& loss, double share) {
  loss_ = loss;
  share_ = share;
  outputs_.clear();
}

Tensors Activation::backward(const Tensors& gradients) {
  choose_roots(gradients);
  outputs_.clear();
  loss_.reset();
  if (form_ == BackwardForm::kTwoWalks) return walk_for_inputs();
  walk_whole();
  return take_input_gradients();
}

void Activation::weight_gradients() {
  if (form_ == BackwardForm::kDeferred) return deferred_.run();
  walk_whole();
}

void Activation::choose_roots(const Tensors& gradients) {
  if (loss_.defined()) {
    roots_ = {loss_};
    root_gradients_ = {at::full_like(loss_.detach(), share_)};
    return;
  }
  roots_ = needing_gradients(outputs_);
  root_gradients_ = gradients;
  TSR_ASSERT(roots_.size() == gradients.size(), "a stage got ", gradients.size(), " gradients for ",
             roots_.size(), " outputs");
}

// The first stage sends no gradient: its W does the whole backward.
Tensors Activation::walk_for_inputs() {
  const Tensors wanted = first_stage_ ? Tensors() : needing_gradients(inputs_);
  Tensors found(wanted.size());
  if (!wanted.empty() && !roots_.empty()) {
    found = torch::autograd::grad(roots_, wanted, root_gradients_, /*retain_graph=*/true,
                                  /*create_graph=*/false, /*allow_unused=*/true);
  }
  for (size_t i = 0; i < found.size(); ++i) found[i] = or_zeros(found[i], wanted[i]);
  return found;
}

// Inputs get gradients as well; if I has already sent them, they are ignored.
void Activation::walk_whole() {
  if (!roots_.empty()) torch::autograd::backward(roots_, root_gradients_);
  roots_.clear();
  root_gradients_.clear();
}

Tensors Activation::take_input_gradients() {
  Tensors gradients;
  if (first_stage_) return gradients;
  for (const at::Tensor& input : needing_gradients(inputs_)) {
    gradients.push_back(or_zeros(input.grad(), input));
    input.mutable_grad().reset();
  }
  inputs_.clear();
  return gradients;
}

}  // namespace tessera::pipeline::detail

#include "tessera/layer/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>

#include "tessera/base/check.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;

// Autograd can only save its own types, so a holder carries the queue to the backward pass.
struct Holder : torch::CustomClassHolder {
  explicit Holder(WeightGradients given) : queue(std::move(given)) {}
  WeightGradients queue;
};

at::Tensor as_matrix(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

// Adds a gradient like the engine does, including hooks.
void accumulate(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (parameter.requires_grad()) (*autograd::impl::grad_accumulator(parameter))({gradient});
}

void add_gradients(const at::Tensor& x, const at::Tensor& gradient, const at::Tensor& weight,
                   const at::Tensor& bias) {
  const at::NoGradGuard no_grad;
  const at::Tensor rows = as_matrix(gradient);
  accumulate(weight, at::mm(rows.t(), as_matrix(x)));
  if (bias.defined()) accumulate(bias, rows.sum(0));
}

class DeferredLinear : public autograd::Function<DeferredLinear> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const WeightGradients& deferred) {
    context->save_for_backward({x});
    // Not as saved variables: the backward needs the parameters themselves.
    context->saved_data["weight"] = weight;
    context->saved_data["bias"] = bias.value_or(at::Tensor());
    context->saved_data["queue"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(deferred));
    return at::linear(x, weight, bias);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const at::Tensor& gradient = gradients[0];
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    const at::Tensor bias = context->saved_data["bias"].toTensor();
    const auto holder = context->saved_data["queue"].toCapsule();
    static_cast<const Holder&>(*holder).queue.add(
        [=] { add_gradients(x, gradient, weight, bias); });
    const bool passed_on = context->needs_input_grad(0);
    return {passed_on ? at::matmul(gradient, weight.detach()) : at::Tensor(), {}, {}, {}};
  }
};

bool is_leaf(const at::Tensor& parameter) {
  return !parameter.defined() || parameter.is_leaf();
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const WeightGradients* deferred) {
  const auto given = bias.defined() ? std::optional(bias) : std::nullopt;
  if (deferred == nullptr || !at::GradMode::is_enabled()) return at::linear(x, weight, given);
  TSR_CHECK(
      is_leaf(weight) && is_leaf(bias),
      "a deferred weight gradient needs a leaf tensor as weight, but this weight is the result "
      "of an operation; pass the parameter, or do not defer");
  return DeferredLinear::apply(x, weight, given, *deferred);
}

}  // namespace tessera

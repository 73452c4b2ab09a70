#include "tessera/layer/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "tessera/layer/internal/few_rows.h"
#include "tessera/layer/internal/linear_parts.h"

namespace tessera {

using namespace layer::detail;

namespace {

namespace autograd = torch::autograd;

void add_gradients(const at::Tensor& x, const at::Tensor& gradient, const at::Tensor& weight,
                   const at::Tensor& bias) {
  const at::NoGradGuard no_grad;
  accumulate_gradient(weight, linear_weight_gradient(x, gradient));
  if (bias.defined()) accumulate_gradient(bias, linear_bias_gradient(gradient));
}

at::Tensor product_of(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, KeptResults* kept) {
  const auto product = [&] { return linear_product(x, weight, bias); };
  if (kept == nullptr) return product();
  return kept->results([&] { return KeptResults::Results{product()}; }).at(0);
}

class DeferredLinear : public autograd::Function<DeferredLinear> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const Pass& pass) {
    context->save_for_backward({x});
    // Not as saved variables: the backward needs the parameters themselves.
    context->saved_data["weight"] = weight;
    context->saved_data["bias"] = bias.value_or(at::Tensor());
    context->saved_data["queue"] = held(*pass.deferred);
    return product_of(x, weight, bias, pass.kept);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const at::Tensor& gradient = gradients[0];
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    const at::Tensor bias = context->saved_data["bias"].toTensor();
    queue_in(context->saved_data["queue"]).add([=] { add_gradients(x, gradient, weight, bias); });
    const bool passed_on = context->needs_input_grad(0);
    return {passed_on ? at::matmul(gradient, weight.detach()) : at::Tensor(), {}, {}, {}};
  }
};

// A product that is kept from another run. The gradients have the bits of LibTorch's.
class KeptLinear : public autograd::Function<KeptLinear> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            KeptResults* kept) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return product_of(x, weight, bias, kept);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& gradient = gradients[0];
    autograd::variable_list made(4);
    if (context->needs_input_grad(0)) {
      made[0] = at::mm(as_matrix(gradient), saved[1]).view(x.sizes());
    }
    if (context->needs_input_grad(1)) made[1] = linear_weight_gradient(x, gradient);
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) {
      made[2] = linear_bias_gradient(gradient);
    }
    return made;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const Pass& pass) {
  const auto given = bias.defined() ? std::optional(bias) : std::nullopt;
  if (!at::GradMode::is_enabled()) return product_of(x, weight, given, pass.kept);
  if (pass.deferred == nullptr) {
    return pass.kept == nullptr ? at::linear(x, weight, given)
                                : KeptLinear::apply(x, weight, given, pass.kept);
  }
  check_deferrable(weight);
  check_deferrable(bias);
  return DeferredLinear::apply(x, weight, given, pass);
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
  return is_of_few_rows(x, weight) ? few_rows_product(x, weight, bias)
                                   : at::linear(x, weight, bias);
}

at::Tensor linear_weight_gradient(const at::Tensor& x, const at::Tensor& gradient) {
  return at::mm(as_matrix(gradient).t(), as_matrix(x));
}

at::Tensor linear_bias_gradient(const at::Tensor& gradient) {
  return as_matrix(gradient).sum(0);
}

}  // namespace tessera

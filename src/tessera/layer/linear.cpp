#include "tessera/layer/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "tessera/layer/internal/few_rows.h"
#include "tessera/layer/internal/joined_rows.h"
#include "tessera/layer/internal/linear_parts.h"
#include "tessera/layer/joined_linear.h"

namespace tessera {

using namespace layer::detail;

namespace {

namespace autograd = torch::autograd;

void accumulate_weight_gradients(at::TensorList weights, const at::Tensor& x,
                                 const at::Tensor& gradient, Fp8 fp8) {
  const at::Tensor left = as_matrix(gradient).t();
  const at::Tensor right = as_matrix(x);
  if (!takes_fp8(left, right.t(), fp8)) return accumulate_product(weights, left, right);
  accumulate_gradients(weights, linear_weight_gradient(x, gradient, fp8));
}

at::Tensor product_of(const at::Tensor& x, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const Pass& pass) {
  const auto compute = [&] {
    return KeptResults::Results{linear_product(x, weight, bias.value_or(at::Tensor()), pass.fp8)};
  };
  return kept_or_computed(pass.kept, compute).at(0);
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
    keep(pass, *context);
    return product_of(x, weight, bias, pass);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const at::Tensor& gradient = gradients[0];
    const at::Tensor x = context->get_saved_variables()[0];
    const LinearWeights layer{context->saved_data["weight"].toTensor(),
                              context->saved_data["bias"].toTensor()};
    const Fp8 fp8 = kept_fp8(*context);
    queue_in(context->saved_data["queue"]).add([=] {
      accumulate_gradients({&layer, 1}, x, gradient, gradient, fp8);
    });
    const bool passed_on = context->needs_input_grad(0);
    return {passed_on ? linear_input_gradient(gradient, layer.weight.detach(), fp8) : at::Tensor(),
            {},
            {},
            {}};
  }
};

// A product that is kept from another run, or in float8, or whose weight gradient is added in its
// place. Otherwise the gradients have the bits of LibTorch's.
class OwnLinear : public autograd::Function<OwnLinear> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const Pass& pass) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    keep(pass, *context);
    return product_of(x, weight, bias, pass);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& gradient = gradients[0];
    const Fp8 fp8 = kept_fp8(*context);
    autograd::variable_list made(4);
    if (context->needs_input_grad(0)) made[0] = linear_input_gradient(gradient, saved[1], fp8);
    if (context->needs_input_grad(1)) {
      made[1] = weight_gradients_to_add(saved[1], x, gradient, fp8, kept_adds(*context))[0];
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) {
      made[2] = as_matrix(gradient).sum(0);
    }
    return made;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const Pass& pass) {
  const auto given = bias.defined() ? std::optional(bias) : std::nullopt;
  if (!at::GradMode::is_enabled()) return product_of(x, weight, given, pass);
  if (pass.deferred == nullptr) {
    const bool is_plain = pass.kept == nullptr && pass.fp8 == Fp8::kNone && !pass.adds_gradients;
    return is_plain ? at::linear(x, weight, given) : OwnLinear::apply(x, weight, given, pass);
  }
  check_deferrable(weight);
  check_deferrable(bias);
  return DeferredLinear::apply(x, weight, given, pass);
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          Fp8 fp8) {
  if (takes_fp8(x, weight, fp8)) {
    const at::Tensor y = with_shape_of(x, fp8_product(as_matrix(x), weight, fp8));
    return bias.defined() ? y.add_(bias) : y;
  }
  const auto given = bias.defined() ? std::optional(bias) : std::nullopt;
  return is_of_few_rows(x, weight) ? few_rows_product(x, weight, given)
                                   : at::linear(x, weight, given);
}

at::Tensor linear_input_gradient(const at::Tensor& gradient, const at::Tensor& weight, Fp8 fp8) {
  const at::Tensor rows = as_matrix(gradient);
  const at::Tensor made =
      takes_fp8(rows, weight.t(), fp8) ? fp8_product(rows, weight.t(), fp8) : at::mm(rows, weight);
  return with_shape_of(gradient, made);
}

at::Tensor linear_weight_gradient(const at::Tensor& x, const at::Tensor& gradient, Fp8 fp8) {
  const at::Tensor left = as_matrix(gradient).t();
  const at::Tensor right = as_matrix(x);
  return takes_fp8(left, right.t(), fp8) ? fp8_product(left, right.t(), fp8) : at::mm(left, right);
}

std::vector<at::Tensor> weight_gradients_to_add(at::TensorList weights, const at::Tensor& x,
                                                const at::Tensor& gradient, Fp8 fp8, bool adds) {
  const at::Tensor left = as_matrix(gradient).t();
  const at::Tensor right = as_matrix(x);
  const bool added =
      adds && !takes_fp8(left, right.t(), fp8) && add_product_in_place(weights, left, right);
  if (added) return std::vector<at::Tensor>(weights.size());
  return split_rows(linear_weight_gradient(x, gradient, fp8), weights);
}

std::vector<at::Tensor> bias_gradients(at::TensorList weights, const at::Tensor& gradient) {
  return split_rows(as_matrix(gradient).sum(0), weights);
}

void accumulate_gradients(std::span<const LinearWeights> layers, const at::Tensor& x,
                          const at::Tensor& gradient, const at::Tensor& for_biases, Fp8 fp8) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> parameters = parameters_of(layers);
  const at::TensorList all = parameters;
  accumulate_weight_gradients(all.slice(0, layers.size()), x, gradient, fp8);
  const at::TensorList biases = all.slice(layers.size());
  if (!biases.empty()) accumulate_gradients(biases, as_matrix(for_biases).sum(0));
}

}  // namespace tessera

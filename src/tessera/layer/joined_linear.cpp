#include "tessera/layer/joined_linear.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/internal/joined_rows.h"
#include "tessera/layer/internal/linear_parts.h"
#include "tessera/layer/wanted_gradients.h"

namespace tessera {

using namespace layer::detail;

namespace {

namespace autograd = torch::autograd;
using Tensors = std::vector<at::Tensor>;
using Layers = std::span<const LinearWeights>;

// Tensors [.., size] that lie beside each other in one [.., all sizes], as that one.
std::optional<at::Tensor> joined_columns(const Tensors& parts) {
  const at::Tensor& first = parts[0];
  int64_t all = 0;
  for (const at::Tensor& part : parts) {
    const bool follows = part.is_alias_of(first) && part.strides() == first.strides() &&
                         part.storage_offset() == first.storage_offset() + all;
    if (!follows) return std::nullopt;
    all += part.size(-1);
  }
  const int64_t dims = first.dim();
  if (first.stride(-1) != 1 || first.stride(dims - 2) != all) return std::nullopt;
  for (int64_t i = 0; i + 2 < dims; ++i) {
    if (first.stride(i) != first.stride(i + 1) * first.size(i + 1)) return std::nullopt;
  }
  std::vector<int64_t> shape = first.sizes().vec();
  shape.back() = all;
  return first.detach().as_strided(shape, first.strides());
}

at::Tensor product(const at::Tensor& x, Layers layers, const Pass& pass) {
  const auto compute = [&] {
    const LinearWeights all = *joined_layer(x, layers);
    return KeptResults::Results{linear_product(x, all.weight, all.bias, pass.fp8)};
  };
  return kept_or_computed(pass.kept, compute).at(0);
}

// Either all layers have biases or none has.
std::vector<LinearWeights> layers_of(at::TensorList parameters) {
  std::vector<LinearWeights> layers;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.dim() == 2) layers.push_back({parameter});
  }
  for (size_t i = layers.size(); i < parameters.size(); ++i) {
    layers[i - layers.size()].bias = parameters[i];
  }
  return layers;
}

class JoinedLinear : public autograd::Function<JoinedLinear> {
 public:
  static autograd::variable_list forward(autograd::AutogradContext* context, const at::Tensor& x,
                                         at::TensorList parameters, const Pass& pass) {
    const std::vector<LinearWeights> layers = layers_of(parameters);
    autograd::variable_list saved{x};
    for (const LinearWeights& layer : layers) saved.push_back(layer.weight);
    context->save_for_backward(std::move(saved));
    context->saved_data["biases"] = static_cast<int64_t>(parameters.size() - layers.size());
    if (pass.deferred != nullptr) {
      // Saved variables are not the parameters themselves.
      context->saved_data["parameters"] = parameters.vec();
      context->saved_data["queue"] = held(*pass.deferred);
    }
    keep(pass, *context);
    return split_result(product(x, layers, pass), layers);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::TensorList weights = at::TensorList(saved).slice(1);
    const at::Tensor gradient = joined_gradient(gradients);
    const auto biases = static_cast<size_t>(context->saved_data["biases"].toInt());
    autograd::variable_list made(1 + weights.size() + biases + 1);
    if (context->needs_input_grad(0)) {
      // A view of the weights has no part in a graph of its gradients.
      const at::Tensor weight =
          at::GradMode::is_enabled() ? at::cat(weights) : *joined_rows(weights);
      made[0] = linear_input_gradient(gradient, weight, kept_fp8(*context));
    }
    if (context->saved_data.count("queue") > 0) {
      queue_in(context->saved_data["queue"]).add(product_later(*context, x, gradient));
    } else {
      make_gradients(*context, weights, {1, 1 + weights.size(), biases}, {x, gradient, gradient},
                     kept_fp8(*context), kept_adds(*context), made);
    }
    return made;
  }

 private:
  static std::function<void()> product_later(autograd::AutogradContext& context,
                                             const at::Tensor& x, const at::Tensor& gradient) {
    const Tensors parameters = context.saved_data["parameters"].toTensorVector();
    return [x, gradient, layers = layers_of(parameters), fp8 = kept_fp8(context)] {
      accumulate_gradients(layers, x, gradient, gradient, fp8);
    };
  }
};

}  // namespace

std::optional<LinearWeights> joined_layer(const at::Tensor& x, Layers layers) {
  if (layers.size() < 2 || !has_kernels(x)) return std::nullopt;
  const Tensors parameters = parameters_of(layers);
  const at::TensorList all = parameters;
  const size_t biases = all.size() - layers.size();
  if (biases != 0 && biases != layers.size()) return std::nullopt;
  const auto weight = joined_rows(all.slice(0, layers.size()));
  if (!weight) return std::nullopt;
  if (biases == 0) return LinearWeights{*weight};
  const auto bias = joined_rows(all.slice(layers.size()));
  if (!bias) return std::nullopt;
  return LinearWeights{*weight, *bias};
}

std::vector<at::Tensor> split_result(const at::Tensor& joined, Layers layers) {
  std::vector<int64_t> sizes;
  for (const LinearWeights& layer : layers) sizes.push_back(layer.weight.size(0));
  return joined.split_with_sizes(sizes, -1);
}

at::Tensor joined_gradient(const Tensors& gradients) {
  if (!at::GradMode::is_enabled()) {  // A view has no part in a graph of the gradients.
    if (auto whole = joined_columns(gradients)) return *std::move(whole);
  }
  return at::cat(gradients, -1);
}

void make_gradients(const autograd::AutogradContext& context, at::TensorList weights,
                    const ParameterPlaces& places, const GradientOperands& of, Fp8 fp8, bool adds,
                    Tensors& made) {
  const auto put = [&](const Tensors& gradients, size_t first) {
    std::ranges::copy(gradients, made.begin() + static_cast<std::ptrdiff_t>(first));
  };
  const size_t wanted = wanted_gradients(context, places.weights, weights.size());
  if (wanted > 0 && !made[places.weights].defined()) {
    const bool adds_all = adds && wanted == weights.size();
    put(weight_gradients_to_add(weights, of.x, of.gradient, fp8, adds_all), places.weights);
  }
  if (wanted_gradients(context, places.biases, places.num_biases) > 0) {
    put(bias_gradients(weights, of.gradient_for_bias), places.biases);
  }
}

std::vector<at::Tensor> parameters_of(Layers layers) {
  Tensors parameters;
  for (const LinearWeights& layer : layers) parameters.push_back(layer.weight);
  for (const LinearWeights& layer : layers) {
    if (layer.bias.defined()) parameters.push_back(layer.bias);
  }
  return parameters;
}

std::vector<at::Tensor> linear(const at::Tensor& x, Layers layers, const Pass& pass) {
  if (!joined_layer(x, layers)) {
    Tensors results;
    for (const auto& [weight, bias] : layers) results.push_back(linear(x, weight, bias, pass));
    return results;
  }
  if (!at::GradMode::is_enabled()) return split_result(product(x, layers, pass), layers);
  const Tensors parameters = parameters_of(layers);
  if (pass.deferred != nullptr) {
    for (const at::Tensor& parameter : parameters) check_deferrable(parameter);
  }
  return JoinedLinear::apply(x, at::TensorList(parameters), pass);
}

}  // namespace tessera

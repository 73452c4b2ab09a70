#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/internal/joined_rows.h"
#include "tessera/layer/internal/linear_parts.h"
#include "tessera/layer/linear.h"

namespace tessera {

using namespace layer::detail;

namespace {

namespace autograd = torch::autograd;
using Tensors = std::vector<at::Tensor>;

// Tensors [.., size] that lie beside each other in one [rows, all sizes], as that one.
std::optional<at::Tensor> joined_columns(const Tensors& parts, int64_t all) {
  const at::Tensor& first = parts[0];
  int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    const bool follows = part.is_alias_of(first) && part.strides() == first.strides() &&
                         part.storage_offset() == first.storage_offset() + begin;
    if (!follows) return std::nullopt;
    begin += part.size(-1);
  }
  const int64_t dims = first.dim();
  if (first.stride(-1) != 1 || first.stride(dims - 2) != all) return std::nullopt;
  for (int64_t i = 0; i + 2 < dims; ++i) {
    if (first.stride(i) != first.stride(i + 1) * first.size(i + 1)) return std::nullopt;
  }
  return first.detach().as_strided({first.numel() / first.size(-1), all}, {all, 1});
}

class JoinedLinear : public autograd::Function<JoinedLinear> {
 public:
  static autograd::variable_list forward(autograd::AutogradContext* context, const at::Tensor& x,
                                         at::TensorList weights, const Pass& pass) {
    autograd::variable_list saved{x};
    if (pass.deferred == nullptr) {
      saved.insert(saved.end(), weights.begin(), weights.end());
    } else {
      // Not as saved variables: the backward needs the parameters themselves.
      context->saved_data["weights"] = weights.vec();
      context->saved_data["queue"] = held(*pass.deferred);
    }
    context->save_for_backward(std::move(saved));
    keep(pass, *context);
    return split(product(x, weights, pass), weights);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor x = saved[0];
    const bool defers = context->saved_data.count("queue") > 0;
    const Tensors weights = defers ? context->saved_data["weights"].toTensorVector()
                                   : Tensors(saved.begin() + 1, saved.end());
    const at::Tensor weight = *joined_rows(weights);
    const at::Tensor gradient = joined(gradients, weight.size(0));
    const Fp8 fp8 = kept_fp8(*context);
    autograd::variable_list made(1 + weights.size() + 1);
    if (context->needs_input_grad(0)) {
      made[0] = linear_input_gradient(gradient, weight, fp8).view(x.sizes());
    }
    if (defers) {
      queue_in(context->saved_data["queue"]).add([x, gradient, weights, fp8] {
        const at::NoGradGuard no_grad;
        const Tensors parts = weight_gradients(x, gradient, weights, fp8);
        for (size_t i = 0; i < parts.size(); ++i) accumulate_gradient(weights[i], parts[i]);
      });
      return made;
    }
    const bool adds = kept_adds(*context) && wants_all(*context, weights.size()) &&
                      !takes_fp8(gradient.t(), as_matrix(x).t(), fp8);
    if (adds && add_product_in_place(weights, gradient.t(), as_matrix(x))) return made;
    const Tensors parts = weight_gradients(x, gradient, weights, fp8);
    std::ranges::copy(parts, made.begin() + 1);
    return made;
  }

  static Tensors split(const at::Tensor& product, at::TensorList weights) {
    std::vector<int64_t> sizes;
    for (const at::Tensor& weight : weights) sizes.push_back(weight.size(0));
    return product.split_with_sizes(sizes, -1);
  }

  static at::Tensor product(const at::Tensor& x, at::TensorList weights, const Pass& pass) {
    const auto compute = [&] {
      return KeptResults::Results{linear_product(x, *joined_rows(weights), {}, pass.fp8)};
    };
    return kept_or_computed(pass.kept, compute).at(0);
  }

 private:
  // Whether the pass is for the gradients of all weights.
  static bool wants_all(const autograd::AutogradContext& context, size_t weights) {
    for (size_t i = 0; i < weights; ++i) {
      if (!context.needs_input_grad(1 + i)) return false;
    }
    return true;
  }

  static at::Tensor joined(const Tensors& gradients, int64_t all) {
    if (auto whole = joined_columns(gradients, all)) return *std::move(whole);
    return as_matrix(at::cat(gradients, -1));
  }

  static Tensors weight_gradients(const at::Tensor& x, const at::Tensor& gradient,
                                  const Tensors& weights, Fp8 fp8) {
    const at::Tensor all = linear_weight_gradient(x, gradient, fp8);
    std::vector<int64_t> rows;
    for (const at::Tensor& weight : weights) rows.push_back(weight.size(0));
    return all.split_with_sizes(rows, 0);
  }
};

bool can_join(const at::Tensor& x, at::TensorList weights, std::span<const LinearWeights> layers) {
  return has_kernels(x) && layers.size() > 1 &&
         std::ranges::none_of(layers, [](const LinearWeights& l) { return l.bias.defined(); }) &&
         joined_rows(weights);
}

}  // namespace

std::vector<at::Tensor> linear(const at::Tensor& x, std::span<const LinearWeights> layers,
                               const Pass& pass) {
  Tensors weights;
  for (const LinearWeights& layer : layers) weights.push_back(layer.weight);
  if (!can_join(x, weights, layers)) {
    Tensors results;
    for (const auto& [weight, bias] : layers) results.push_back(linear(x, weight, bias, pass));
    return results;
  }
  if (!at::GradMode::is_enabled()) {
    return JoinedLinear::split(JoinedLinear::product(x, weights, pass), weights);
  }
  if (pass.deferred != nullptr) {
    for (const at::Tensor& weight : weights) check_deferrable(weight);
  }
  return JoinedLinear::apply(x, at::TensorList(weights), pass);
}

}  // namespace tessera

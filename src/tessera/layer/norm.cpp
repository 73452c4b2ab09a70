#include "tessera/layer/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rms_norm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "tessera/hook/operator_override.h"
#include "tessera/hook/storage_reads.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/kernel/norm.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;

// 1 / root(mean square) of each row.
at::Tensor scale_of(const at::Tensor& x, double eps) {
  const auto size = static_cast<double>(x.size(-1));
  const auto wide = at::promote_types(x.scalar_type(), at::kFloat);
  at::Tensor scale = at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true, wide);
  return scale.square_().div_(size).add_(eps).rsqrt_();
}

at::Tensor scaled(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& weight) {
  return at::mul(x, scale).mul_(weight).to(x.scalar_type());
}

// With scale = 1 / root(mean square): y = x·scale·weight.
class RmsNorm : public autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, double eps) {
    const at::Tensor scale = scale_of(x, eps);
    context->save_for_backward({x, weight, scale});
    return scaled(x, scale, weight);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& scale = saved[2];
    const at::Tensor weight = saved[1].to(scale.scalar_type());
    const at::Tensor unit = x * scale;
    const at::Tensor product = unit * gradients[0];
    const at::Tensor of_weight = product.flatten(0, -2).sum(0);
    // The term by which the scale depends on x.
    const at::Tensor mean = at::matmul(product, weight.unsqueeze(-1)).div_(x.size(-1));
    const at::Tensor of_x = at::mul(gradients[0], weight).addcmul_(unit, mean, -1).mul_(scale);
    return {of_x.to(x.scalar_type()), of_weight.to(saved[1].scalar_type()), {}};
  }
};

class NormedSumOnGpu : public autograd::Function<NormedSumOnGpu> {
 public:
  static autograd::variable_list forward(autograd::AutogradContext* context, const at::Tensor& x,
                                         const at::Tensor& weight,
                                         const std::optional<at::Tensor>& added, double eps) {
    context->set_materialize_grads(false);  // Either result may have no reader.
    const at::Tensor other = added ? added->contiguous() : at::Tensor();
    const GpuNorm made = add_norm_on_gpu(x.contiguous(), other, weight, eps);
    context->save_for_backward({made.sum, weight, made.scales});
    context->saved_data["added"] = added.has_value();
    // An input that is returned must be the tensor that was given.
    return {added ? made.sum : x, made.normed};
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const auto result = [&](const at::Tensor& of_sum, const at::Tensor& of_weight) {
      const bool added = context->saved_data["added"].toBool();
      return autograd::variable_list{of_sum, of_weight, added ? of_sum : at::Tensor(), {}};
    };
    if (!gradients[1].defined()) return result(gradients[0], {});
    const autograd::variable_list saved = context->get_saved_variables();
    const auto packed = [](const at::Tensor& x) { return x.defined() ? x.contiguous() : x; };
    const GpuNormGradients made = add_norm_backward_on_gpu(
        gradients[1].contiguous(), packed(gradients[0]), saved[0], saved[1], saved[2]);
    return result(made.sum, made.weight.to(saved[1].scalar_type()));
  }
};

// Kernels are no operators, so who watches or replaces operators on the weight would miss them.
bool is_observed(const at::Tensor& weight) {
  return StorageReads::watches(weight) || OperatorOverride::overrides(weight);
}

bool fits_kernels(const at::Tensor& x, const at::Tensor& weight) {
  return has_norm_kernels(x) && is_alike(x, weight) && weight.dim() == 1 &&
         weight.size(0) == x.size(-1) && weight.is_contiguous() && !is_observed(weight);
}

NormedSum normed_on_gpu(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight,
                        double eps) {
  const auto given = added.defined() ? std::optional(added) : std::nullopt;
  const autograd::variable_list made = NormedSumOnGpu::apply(x, weight, given, eps);
  return {made[0], made[1]};
}

}  // namespace

// LibTorch has one kernel per direction on a GPU. On a CPU its backward is a chain of a dozen
// operators, three times slower than this one.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (fits_kernels(x, weight)) return normed_on_gpu(x, {}, weight, eps).normed;
  if (x.is_cuda()) return at::rms_norm(x, weight.sizes(), weight, eps);
  if (!at::GradMode::is_enabled()) return scaled(x, scale_of(x, eps), weight);
  return RmsNorm::apply(x, weight, eps);
}

NormedSum normed_sum(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight,
                     double eps) {
  const bool fits = !added.defined() || (is_alike(x, added) && x.sizes() == added.sizes());
  if (fits && fits_kernels(x, weight)) return normed_on_gpu(x, added, weight, eps);
  const at::Tensor sum = added.defined() ? x + added : x;
  return {sum, rms_norm(sum, weight, eps)};
}

}  // namespace tessera
